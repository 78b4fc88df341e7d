package testenv_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
)

// A control plane with simulated nodes and an operator, in virtual time.
func ExampleNew() {
	startOperator := func(ctx context.Context, config *rest.Config) error { <-ctx.Done(); return nil }
	_ = func(t *testing.T) { // a test
		synctest.Test(t, func(t *testing.T) {
			env := testenv.New(t, testenv.CRDs("config/crd"), testenv.Nodes(controlplane.Simulated{}),
				testenv.Run(startOperator))
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "web"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
			}
			env.Create(t, pod)
			env.Settle(t)
			time.Sleep(30 * 24 * time.Hour) // virtual time: returns immediately
			env.Settle(t)
			env.Get(t, pod)
		})
	}
}

// Prepare expensive state once, and fork it for every test case.
func ExampleEnv_Fork() {
	_ = func(t *testing.T) { // a test
		base := testenv.New(t, testenv.CRDs("config/crd"))
		base.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}})
		for _, name := range []string{"quota", "limits"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				env := base.Fork(t) // has team-a; writes here are visible only in this fork
				env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team-a"}})
			})
		}
	}
}
