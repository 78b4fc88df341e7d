package operator_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/reconcile"
)

var one = client.Key{Namespace: "default", Name: "one"}

// watched returns a client of a server with one ConfigMap, and informers that run until the test
// ends.
func watchedThings(t *testing.T, faults apitest.Faults, form informer.Form) (client.Client, informer.Informers) {
	t.Helper()
	server := apitest.New()
	direct, err := client.New(client.Config{REST: server.REST()})
	must(t, err)
	must(t, direct.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: one.Namespace,
		Name: one.Name}}))
	server.SetFaults(faults)
	informers, err := informer.New(informer.Config{Client: direct, Form: form})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); synctest.Wait() })
	go func() { _ = informers.Run(ctx) }()
	return direct, informers
}

// The event of a reconcile's own write causes no further reconcile if one has started, and read the
// write, since then. Otherwise it does. Writes of others always cause one.
func TestEchoes(t *testing.T) {
	const lag = 10 * time.Millisecond
	for name, tt := range map[string]struct {
		form     informer.Form
		again    time.Duration // when the object is reconciled for another reason
		byOthers bool
		want     int32
	}{
		"no reconcile in between":     {want: 2},
		"one in between":              {again: lag / 2, want: 2},
		"one in between, compact":     {again: lag / 2, want: 2, form: informer.Compact},
		"one in between, metadata":    {again: lag / 2, want: 2, form: informer.Metadata},
		"one later":                   {again: 2 * lag, want: 3},
		"one in between, and a write": {again: lag / 2, byOthers: true, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				direct, informers := watchedThings(t, apitest.Faults{WatchLag: lag}, tt.form)
				ctx, c := t.Context(), informers.Client()
				again := make(chan reconcile.Request)
				var count atomic.Int32
				r := startRuns(t, controller.Config{
					Sources: []controller.Source{&controller.Kind{Informers: informers, Object: &corev1.ConfigMap{}},
						controller.Channel(again)},
					Reconciler: reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result,
						error) {
						count.Add(1)
						cm, err := client.Get[corev1.ConfigMap](ctx, c, req.NamespacedName)
						if err == nil && cm.Data["written"] == "" {
							cm.Data = map[string]string{"written": "yes"}
							err = c.Update(ctx, cm)
						}
						return reconcile.Result{}, err
					}),
				})
				synctest.Wait()
				for count.Load() == 0 {
					time.Sleep(time.Millisecond)
				}
				if tt.again != 0 {
					time.Sleep(tt.again)
					again <- reconcile.Request{NamespacedName: one}
				}
				if tt.byOthers {
					cm, err := client.Get[corev1.ConfigMap](ctx, direct, one)
					must(t, err)
					cm.Labels = map[string]string{"others": "were here"}
					must(t, direct.Update(ctx, cm))
				}
				time.Sleep(time.Second)
				assert.Equalf(t, count.Load(), tt.want, "reconciles")
				r.stop(t)
			})
		})
	}
}

// An event that reaches the queue late causes no reconcile if one has started since readers could
// see the change, regardless of the writer. It does cause one if the reconciler may read from
// another informer, which may be behind.
func TestLateEvents(t *testing.T) {
	const late = 10 * time.Millisecond
	for name, tt := range map[string]struct {
		again time.Duration // after the event, the object is reconciled for another reason
		two   bool          // informers of the kind
		want  int32
	}{
		"no reconcile in between":    {want: 2},
		"one in between":             {again: late / 2, want: 2},
		"one in between, two copies": {again: late / 2, two: true, want: 3},
		"one later":                  {again: 2 * late, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				direct, informers := watchedThings(t, apitest.Faults{}, informer.Full)
				if tt.two {
					_, err := informers.For(&metav1.PartialObjectMetadata{
						TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}})
					must(t, err)
				}
				slow := func(e controller.Event, enqueue func(reconcile.Request)) {
					time.Sleep(late)
					controller.EnqueueObject(e, enqueue)
				}
				again := make(chan reconcile.Request)
				var count atomic.Int32
				r := startRuns(t, controller.Config{
					Sources: []controller.Source{
						&controller.Kind{Informers: informers, Object: &corev1.ConfigMap{}, Handler: slow},
						controller.Channel(again),
					},
					Reconciler: reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result,
						error) {
						count.Add(1)
						return reconcile.Result{}, nil
					}),
				})
				time.Sleep(time.Second)
				cm, err := client.Get[corev1.ConfigMap](t.Context(), direct, one)
				must(t, err)
				cm.Labels = map[string]string{"others": "were here"}
				must(t, direct.Update(t.Context(), cm))
				if tt.again != 0 {
					time.Sleep(tt.again)
					again <- reconcile.Request{NamespacedName: one}
				}
				time.Sleep(time.Second)
				assert.Equalf(t, count.Load(), tt.want, "reconciles")
				r.stop(t)
			})
		})
	}
}

// A reconcile that reads directly from the informer sees the writes of this process, or the event
// of the write causes another reconcile.
func TestEchoesOfInformerReads(t *testing.T) {
	const lag = 10 * time.Millisecond
	written := func(obj client.Object) []string { return []string{obj.GetLabels()["written"]} }
	reads := map[string]func(inf informer.Informer) bool{
		"get": func(inf informer.Informer) bool {
			obj, ok := inf.Get(one)
			return ok && obj.GetLabels()["written"] == "yes"
		},
		"list": func(inf informer.Informer) bool {
			objs := inf.List(one.Namespace)
			return len(objs) == 1 && objs[0].GetLabels()["written"] == "yes"
		},
		"lister": func(inf informer.Informer) bool {
			objs := informer.Lister[corev1.ConfigMap, *corev1.ConfigMap]{Informer: inf}.List("", labels.Everything())
			return len(objs) == 1 && objs[0].Labels["written"] == "yes"
		},
		"index": func(inf informer.Informer) bool {
			objs, err := inf.ByIndex("written", "yes")
			return err == nil && len(objs) == 1
		},
	}
	for _, form := range []informer.Form{informer.Full, informer.Compact, informer.Metadata} {
		// the informer cannot show a write with another object type
		for _, dynamic := range []bool{false, true} {
			for name, read := range reads {
				t.Run(fmt.Sprint(form, " dynamic ", dynamic, " ", name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						_, informers := watchedThings(t, apitest.Faults{WatchLag: lag}, form)
						c := informers.Client()
						inf, err := informers.For(&corev1.ConfigMap{})
						must(t, err)
						must(t, inf.AddIndex("written", written))
						again := make(chan reconcile.Request)
						var count, seen atomic.Int32
						r := startRuns(t, controller.Config{
							Sources: []controller.Source{&controller.Kind{Informers: informers,
								Object: &corev1.ConfigMap{}}, controller.Channel(again)},
							Reconciler: reconcile.Func(func(ctx context.Context,
								req reconcile.Request) (reconcile.Result, error) {
								if read(inf) {
									seen.Add(1)
									return reconcile.Result{}, nil
								}
								if count.Add(1) > 1 {
									return reconcile.Result{}, nil
								}
								var cm client.Object = &corev1.ConfigMap{
									ObjectMeta: metav1.ObjectMeta{Namespace: one.Namespace, Name: one.Name}}
								if dynamic {
									cm = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1",
										"kind":     "ConfigMap",
										"metadata": map[string]any{"namespace": one.Namespace, "name": one.Name}}}
								}
								return reconcile.Result{},
									c.Patch(ctx, cm,
										client.RawPatch(types.MergePatchType,
											[]byte(`{"metadata":{"labels":{"written":"yes"}}}`)))
							}),
						})
						for count.Load() == 0 {
							time.Sleep(time.Millisecond)
						}
						time.Sleep(lag / 2)
						// after the write, before its event
						again <- reconcile.Request{NamespacedName: one}
						time.Sleep(24 * time.Hour)
						if seen.Load() == 0 {
							t.Errorf("no reconcile saw the write, %d did not", count.Load())
						}
						r.stop(t)
					})
				})
			}
		}
	}
}
