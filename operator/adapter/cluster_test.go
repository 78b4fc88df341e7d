package adapter_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	crcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/adapter"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/reconcile"
)

// Requeue backs off per object, and restarts when a cluster is engaged again.
func TestRequeueOfClusters(t *testing.T) {
	r := adapter.Reconciler(crreconcile.Func(func(context.Context, crreconcile.Request) (crreconcile.Result, error) {
		//lint:ignore SA1019 some reconcilers use it
		return crreconcile.Result{Requeue: true}, nil
	}))
	expect := func(cluster string, want time.Duration) {
		t.Helper()
		result, err := r.Reconcile(t.Context(), reconcile.Request{Cluster: cluster,
			NamespacedName: client.Key{Namespace: "default", Name: "a"}})
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

// A rate limiter of controller-runtime distinguishes objects with the same name in several
// clusters, even when one of the clusters is disengaged.
func TestLimiterOfClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, east := apitest.New(), apitest.New()
		m, err := manager.New(manager.Config{REST: own.REST(), Name: "test", Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[crreconcile.Request](time.Minute, time.Hour)
		failing := crreconcile.Func(func(context.Context, crreconcile.Request) (crreconcile.Result, error) {
			return crreconcile.Result{}, errors.New("reconcile failed")
		})
		must(t, adapter.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).
			WithOptions(crcontroller.Options{RateLimiter: limiter}).Complete(failing))
		_, err = m.Engage("east", east.REST())
		must(t, err)
		for _, s := range []*apitest.Server{own, east} {
			c, err := client.New(client.Config{REST: s.REST()})
			must(t, err)
			must(t, c.Create(t.Context(), configMap("a", "")))
		}
		stop := require.Running(t, m.Run)
		time.Sleep(time.Second)
		failures := func(namespace string) int {
			a := crreconcile.Request{}
			a.Namespace, a.Name = namespace, "a"
			return limiter.NumRequeues(a)
		}
		if failures("default") != 1 || failures("east:default") != 1 {
			t.Errorf("%d and %d failures, want 1 each", failures("default"), failures("east:default"))
		}
		must(t, m.Disengage("east"))
		if failures("default") != 1 || failures("east:default") != 0 {
			t.Errorf("after one has gone: %d and %d failures, want 1 and 0", failures("default"),
				failures("east:default"))
		}
		stop()
	})
}

// In a reconcile of another cluster, ClientFrom has the mapper of that cluster, and reads and
// writes kinds that only it serves.
func TestClientFromCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, east := apitest.New(), apitest.New()
		own.RemoveKind("pods")
		m, err := manager.New(manager.Config{REST: own.REST(), Name: "test", Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		pods := corev1.SchemeGroupVersion.WithKind("Pod").GroupKind()
		served := map[string]bool{} // by cluster
		r := crreconcile.Func(func(ctx context.Context, req crreconcile.Request) (crreconcile.Result, error) {
			c, err := adapter.ClientFrom(ctx, m)
			must(t, err)
			_, err = c.RESTMapper().RESTMapping(pods, "v1")
			served[reconcile.Cluster(ctx)] = err == nil
			if err != nil {
				return crreconcile.Result{}, nil
			}
			namespaced, err := c.IsObjectNamespaced(&corev1.Pod{})
			must(t, err)
			if !namespaced {
				t.Error("pods have no namespace")
			}
			must(t, c.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}))
			must(t, c.Get(ctx, req.NamespacedName, &corev1.Pod{}))
			return crreconcile.Result{}, nil
		})
		must(t, adapter.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Complete(r))
		_, err = m.Engage("east", east.REST())
		must(t, err)
		for _, s := range []*apitest.Server{own, east} {
			c, err := client.New(client.Config{REST: s.REST()})
			must(t, err)
			must(t, c.Create(t.Context(), configMap("a", "")))
		}
		stop := require.Running(t, m.Run)
		time.Sleep(time.Second)
		stop()
		if want := map[string]bool{"": false, "east": true}; !maps.Equal(served, want) {
			t.Errorf("pods are served: %v, want %v", served, want)
		}
		assert.Equalf(t, len(east.Objects("pods")), 1, "pods in east")
	})
}
