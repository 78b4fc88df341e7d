package manager_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

// Which work counts as a loop, and which does not.
func TestLoops(t *testing.T) {
	update := func(ctx context.Context, c client.Client, key client.Key, f func(*corev1.ConfigMap) bool) error {
		return reconcile.RetryOnConflict(ctx, func(ctx context.Context) error {
			cm, err := client.Get[corev1.ConfigMap](ctx, c, key)
			if err != nil || !f(cm) {
				return client.IgnoreNotFound(err)
			}
			cm.ManagedFields = []metav1.ManagedFieldsEntry{{ // as a server records the writer
				Manager: c.FieldOwner(), Operation: metav1.ManagedFieldsOperationUpdate, Time: &metav1.Time{Time: time.Now()},
			}}
			return c.Update(ctx, cm)
		})
	}
	set := func(field, value string) func(*corev1.ConfigMap) bool {
		return func(cm *corev1.ConfigMap) bool {
			if cm.Data[field] == value {
				return false
			}
			if cm.Data == nil {
				cm.Data = map[string]string{}
			}
			cm.Data[field] = value
			return true
		}
	}
	count := func(cm *corev1.ConfigMap) bool {
		n, _ := strconv.Atoi(cm.Data["n"])
		return set("n", fmt.Sprint(n+1))(cm)
	}
	for _, tt := range []struct {
		name      string
		reconcile func(ctx context.Context, c client.Client, key client.Key) (reconcile.Result, error)
		// ten times a second
		others func(ctx context.Context, c client.Client, key client.Key, i int) error
		// the fields in the loop; empty: no loop
		want []string
	}{
		{
			name: "one controller answers itself",
			reconcile: func(ctx context.Context, c client.Client, key client.Key) (reconcile.Result, error) {
				time.Sleep(20 * time.Millisecond)
				return reconcile.Result{}, update(ctx, c, key, count)
			},
			want: []string{"ConfigMap default/it", "data.n", "of test"},
		},
		{
			name: "another writer reverts it",
			reconcile: func(ctx context.Context, c client.Client, key client.Key) (reconcile.Result, error) {
				return reconcile.Result{}, update(ctx, c, key, set("side", "ours"))
			},
			others: func(ctx context.Context, c client.Client, key client.Key, i int) error {
				return update(ctx, c, key, set("side", "theirs"))
			},
			want: []string{"ConfigMap default/it", `data.side ("`, "theirs"},
		},
		{
			name: "it follows another writer",
			reconcile: func(ctx context.Context, c client.Client, key client.Key) (reconcile.Result, error) {
				return reconcile.Result{}, update(ctx, c, key, func(cm *corev1.ConfigMap) bool {
					return set("seen", cm.Data["spec"])(cm)
				})
			},
			others: func(ctx context.Context, c client.Client, key client.Key, i int) error {
				return update(ctx, c, key, set("spec", fmt.Sprint(i)))
			},
		},
		{
			name: "it writes by the clock",
			reconcile: func(ctx context.Context, c client.Client, key client.Key) (reconcile.Result, error) {
				err := update(ctx, c, key, func(cm *corev1.ConfigMap) bool {
					return set("time", time.Now().Truncate(10*time.Second).String())(cm)
				})
				return reconcile.Result{RequeueAfter: 10 * time.Second}, err
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := apitest.New()
				var loops []*trace.Loop
				m, err := manager.New(manager.Config{REST: s.REST(), Name: "test", Log: slog.New(slog.DiscardHandler),
					Trace: trace.Func(func(r trace.Record) {
						if r.Loop != nil {
							loops = append(loops, r.Loop)
						}
					})})
				must(t, err)
				must(t, m.AddController(controller.Config{Name: "test", Kind: "ConfigMap",
					Sources: []controller.Source{&controller.Kind{Informers: m.Informers(),
						Object: &corev1.ConfigMap{}}},
					Reconciler: reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result,
						error) {
						return tt.reconcile(ctx, m.Client(), req.NamespacedName)
					})}))
				other, err := client.New(client.Config{REST: s.REST(), FieldOwner: "other"})
				must(t, err)
				stop := require.Running(t, m.Run)
				it := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "it"}}
				must(t, m.LiveClient().Create(t.Context(), it))
				for i := range 150 {
					if tt.others != nil {
						must(t, tt.others(t.Context(), other, client.KeyOf(it), i))
					}
					time.Sleep(100 * time.Millisecond)
				}
				stop()
				if len(tt.want) == 0 {
					if len(loops) > 0 {
						t.Errorf("a false loop: %s", loops[0])
					}
					return
				}
				if len(loops) == 0 {
					t.Fatal("the loop was not found")
				}
				for _, want := range tt.want {
					if text := loops[len(loops)-1].String(); !strings.Contains(text, want) {
						t.Errorf("%q is not in: %s", want, text)
					}
				}
			})
		})
	}
}
