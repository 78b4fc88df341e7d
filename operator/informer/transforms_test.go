package informer_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
)

// A transform of one kind changes only objects of that kind, and only their repeated applies are
// sent again.
func TestTransformOfOneKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, func(c *informer.Config) {
			c.Transforms = map[client.Object]func(
				client.Object) client.Object{&corev1.ConfigMap{}: func(obj client.Object) client.Object {
				obj.SetAnnotations(map[string]string{"transformed": "yes"})
				return obj
			}}
		})
		w.run()
		var writes atomic.Int32
		w.server.SetFaults(apitest.Faults{Intercept: func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet {
				writes.Add(1)
			}
			return false
		}})
		meta := metav1.ObjectMeta{Namespace: "default", Name: "a"}
		for kind, tt := range map[string]struct {
			obj    func() client.Object
			writes int32
		}{
			"Pod":       {func() client.Object { return &corev1.Pod{ObjectMeta: meta} }, 1},
			"ConfigMap": {func() client.Object { return &corev1.ConfigMap{ObjectMeta: meta} }, 3},
		} {
			w.must(client.IgnoreNotFound(w.client.Get(w.ctx, client.Key{Namespace: "default", Name: "a"}, tt.obj())))
			writes.Store(0)
			for range 3 {
				w.must(w.client.Apply(w.ctx, tt.obj()))
				synctest.Wait()
			}
			if got := writes.Load(); got != tt.writes {
				t.Errorf("three applies of a %s sent %d writes, want %d", kind, got, tt.writes)
			}
			got := tt.obj()
			w.must(w.client.Get(w.ctx, client.Key{Namespace: "default", Name: "a"}, got))
			is := got.GetAnnotations()["transformed"] == "yes"
			assert.Equalf(t, is, kind == "ConfigMap", "the %s is transformed", kind)
		}
		same := func(obj client.Object) client.Object { return obj }
		_, err := informer.New(informer.Config{Client: w.direct,
			Transforms: map[client.Object]func(client.Object) client.Object{
				&corev1.Pod{}: same, &corev1.Pod{ObjectMeta: meta}: same,
			}})
		assert.ErrorContains(t, err, "several transforms")
	})
}
