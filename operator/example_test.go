package operator_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/operator"
)

// Labeler sets a label on every object.
type Labeler struct{ deps operator.Deps }

func (l *Labeler) Reconcile(ctx context.Context, node *corev1.Node) (operator.Result, error) {
	operator.Log(ctx).Info("looking at it", "version", node.Status.NodeInfo.KubeletVersion)
	return operator.Result{}, nil
}

func NewLabeler(deps operator.Deps) *Labeler { return &Labeler{deps} }

func ExampleMain() {
	operator.Main(operator.For(NewLabeler, operator.Filter(operator.GenerationChanged)))
}
