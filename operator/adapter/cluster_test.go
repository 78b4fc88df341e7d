package adapter_test

import (
	"context"
	"testing"
	"time"

	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kelson.dev/operator/adapter"
	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
)

// RUN-07: Requeue backs off per object, and begins anew with a cluster.
func TestRequeueOfClusters(t *testing.T) {
	r := adapter.Reconciler(crreconcile.Func(func(context.Context, crreconcile.Request) (crreconcile.Result, error) {
		//lint:ignore SA1019 there are reconcilers that use it
		return crreconcile.Result{Requeue: true}, nil
	}))
	expect := func(cluster string, want time.Duration) {
		t.Helper()
		result, err := r.Reconcile(t.Context(), reconcile.Request{Cluster: cluster, NamespacedName: client.Key{Namespace: "default", Name: "a"}})
		if err != nil || result.RequeueAfter != want {
			t.Errorf("%s: again after %v, want %v (%v)", cluster, result.RequeueAfter, want, err)
		}
	}
	expect("east", 5*time.Millisecond)
	expect("east", 10*time.Millisecond)
	expect("west", 5*time.Millisecond)
	r.(interface{ Disengage(cluster string) }).Disengage("east")
	expect("east", 5*time.Millisecond)
	expect("west", 10*time.Millisecond)
}
