package explore_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/lab/explore"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// cleaning creates a Secret for each ConfigMap, and deletes it in its finalizer. The bug: it
// deletes any Secret of this name.
type cleaning struct {
	operator.Deps
	correct bool
}

func (r *cleaning) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	if cm.Name != "web" {
		return operator.Result{}, nil
	}
	return operator.Result{}, createSecret(ctx, r.Client, cm, "-key", "a")
}

func (r *cleaning) Finalize(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, client.Key{Namespace: cm.Namespace, Name: cm.Name + "-key"}, secret)
	if apierrors.IsNotFound(err) || err == nil && r.correct && !metav1.IsControlledBy(secret, cm) {
		return operator.Result{}, nil
	}
	return operator.Result{}, errors.Join(err, client.IgnoreNotFound(r.Client.Delete(ctx, secret)))
}

// An operator that deletes an object of another client with the name that it would have given to
// its own is found. One that leaves it raises no alarm.
func TestOccupiedName(t *testing.T) {
	for name, correct := range map[string]bool{"faulty": false, "correct": true} {
		s := explore.Scenario{
			Operator: explore.Parts(operator.Name("clean"), operator.For(func(d operator.Deps) *cleaning {
				return &cleaning{d, correct}
			}, operator.Owns[corev1.Secret]())),
			Inputs: []explore.Input{explore.Create(configMap("web"))},
		}
		alarms := alarmsOf(t, s)
		if _, found := alarms["O13 occupied create secrets default/web-key #1"]; found == correct ||
			correct && len(alarms) > 0 {
			t.Errorf("%s: %v", name, alarms)
		}
	}
}
