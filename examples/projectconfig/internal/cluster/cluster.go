// Package cluster publishes the name of a cluster.
package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/trace"
)

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch

// The ConfigMap with the cluster's name, in the namespace that all clients may read.
const (
	Namespace = metav1.NamespacePublic
	Name      = "cluster-name"
	Key       = "name"
)

// Naming maintains the ConfigMap and reverts changes by others.
func Naming(clusterName string) operator.Part {
	return operator.ForRequests[corev1.ConfigMap](
		func(c operator.Client) *naming { return &naming{c, clusterName} },
		operator.Named("cluster-name"),
		operator.Filter(func(e operator.Event) bool {
			return e.Object.GetNamespace() == Namespace && e.Object.GetName() == Name
		}),
		operator.From(controller.SourceFunc(once)),
	)
}

// once enqueues the ConfigMap when the operator starts. Without it, a missing ConfigMap would cause
// no event and would not be created.
func once(_ context.Context, q controller.Queue) (<-chan struct{}, error) {
	q.Add(operator.Request{NamespacedName: types.NamespacedName{Namespace: Namespace, Name: Name}},
		trace.Because(trace.Cause{Event: trace.Other}))
	done := make(chan struct{})
	close(done)
	return done, nil
}

type naming struct {
	client operator.Client
	name   string
}

func (n *naming) Reconcile(ctx context.Context, req operator.Request) (operator.Result, error) {
	_, err := operator.Apply(ctx, n.client, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name},
		Data:       map[string]string{Key: n.name},
	})
	return operator.Result{}, err
}
