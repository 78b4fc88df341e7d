package operator_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/reconcile"
)

// Reconciles are level-triggered. After any number of changes during a reconcile, one more
// reconcile runs. It sees the last change, even if that is a deletion.
func TestLevelDriven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var seen []string
		r := startRuns(t, controller.Config{
			Sources: []controller.Source{&controller.Kind{Informers: c.informers, Object: &corev1.ConfigMap{}}},
			Reconciler: reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				cm, err := client.Get[corev1.ConfigMap](ctx, c.informers.Client(), req.NamespacedName)
				if err != nil {
					seen = append(seen, "gone")
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				seen = append(seen, cm.Data["n"])
				time.Sleep(time.Minute)
				return reconcile.Result{}, nil
			}),
		})
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
			Data: map[string]string{"n": "created"}}
		must(t, c.Create(t.Context(), cm))
		time.Sleep(time.Second)
		for n := range 10 {
			cm.Data = map[string]string{"n": fmt.Sprint(n)}
			must(t, c.Update(t.Context(), cm))
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		cm.Data = map[string]string{"n": "unread"}
		must(t, c.Update(t.Context(), cm))
		must(t, c.Delete(t.Context(), cm))
		time.Sleep(2 * time.Minute)
		r.stop(t)
		assert.Slicef(t, seen, []string{"created", "9", "gone"}, "it saw")
	})
}
