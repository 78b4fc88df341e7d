package adapter

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/adapter/cluster"
	"kelson.dev/operator/internal/apitest"
)

// The first reconcile of a new leader waits until the caches have caught up with the server; after
// an error the next reconcile retries, and later reconciles send no requests.
func TestHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		var faulty atomic.Bool
		var requests atomic.Int64
		s.SetFaults(apitest.Faults{Fail: func(string, string) (int, metav1.StatusReason) {
			requests.Add(1)
			if faulty.Load() {
				return http.StatusInternalServerError, metav1.StatusReasonInternalError
			}
			return 0, ""
		}})
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
		c, err := cluster.NewCache(s.REST(), crcache.Options{Mapper: mapper}, cluster.Config{})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()
		synctest.Wait()
		_, err = c.GetInformer(ctx, &corev1.ConfigMap{})
		require.NoError(t, err)
		h := newHandover(c)
		faulty.Store(true)
		if err := h.wait(ctx); err == nil {
			t.Error("no error although the server is unreachable")
		}
		faulty.Store(false)
		before := requests.Load()
		if err := h.wait(ctx); err != nil || requests.Load() == before {
			t.Errorf("after the fault: %v, %d requests", err, requests.Load()-before)
		}
		before = requests.Load()
		if err := h.wait(ctx); err != nil || requests.Load() != before {
			t.Errorf("once the caches have caught up: %v, %d requests", err, requests.Load()-before)
		}
		cancel()
		assert.NoError(t, <-ended)
	})
}

// Each goroutine has its own number, which does not change.
func TestGoroutine(t *testing.T) {
	here, there := goroutine(), make(chan uint64)
	go func() { there <- goroutine() }()
	if other := <-there; other == here || here != goroutine() {
		t.Errorf("this goroutine is %d and then %d, another one %d", here, goroutine(), other)
	}
}
