package operator_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
)

// watched returns the kinds that have a watch, except ConfigMaps.
func watched(informers informer.Informers) string {
	var kinds []string
	for _, s := range informers.Statuses() {
		if s.Kind.Kind != "ConfigMap" {
			kinds = append(kinds, s.Kind.Kind)
		}
	}
	slices.Sort(kinds)
	return strings.Join(kinds, " ")
}

// needsKinds is a reconciler whose objects name, in data.kinds, the kinds of the objects that they
// own.
func needsKinds(ctx context.Context, d operator.Deps, cm *corev1.ConfigMap) error {
	var watches []operator.Option
	for _, kind := range strings.Fields(cm.Data["kinds"]) {
		kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind}
		watches = append(watches, operator.OwnsKind[unstructured.Unstructured](kind))
		if _, err := client.List[unstructured.Unstructured](ctx, d.Client, client.OfKind(kind)); err != nil {
			return err
		}
	}
	return d.WatchFor(ctx, watches...)
}

// A reconciler adds and removes watches, which end with the last object that needs them.
func TestWatchFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New(widgets, gadgets)
		c, cms := user(t, s, "a", "b")
		r := &caller{do: needsKinds}
		stop := runIn(t, operator.Config{REST: s.REST()}, operator.For(r.construct))
		needs := func(cm *corev1.ConfigMap, kinds string) {
			t.Helper()
			cm.Data = map[string]string{"kinds": kinds}
			must(t, c.Update(t.Context(), cm))
			r.take()
		}
		want(t, "start", r.take(), "a b")
		want(t, "no needs", watched(r.Informers), "")
		must(t, c.Create(t.Context(), ownedBy(dynamic(widgets, "early"), cms[1])))
		needs(cms[0], "Widget")
		want(t, "a needs widgets", watched(r.Informers), "Widget")
		must(t, c.Create(t.Context(), ownedBy(dynamic(widgets, "w"), cms[0])))
		want(t, "a widget of a", r.take(), "a")
		needs(cms[1], "Widget Gadget")
		want(t, "b needs both", watched(r.Informers), "Gadget Widget")
		must(t, c.Create(t.Context(), ownedBy(dynamic(gadgets, "g"), cms[0])))
		want(t, "a gadget of a", r.take(), "a")
		needs(cms[0], "")
		want(t, "b still needs both", watched(r.Informers), "Gadget Widget")
		needs(cms[1], "Gadget")
		want(t, "widgets are not needed", watched(r.Informers), "Gadget")
		must(t, c.Create(t.Context(), ownedBy(dynamic(widgets, "late"), cms[1])))
		want(t, "a widget that is not watched", r.take(), "")
		needs(cms[0], "Widget")
		want(t, "a again", watched(r.Informers), "Gadget Widget")
		must(t, c.Delete(t.Context(), cms[1]))
		r.take()
		want(t, "b is deleted", watched(r.Informers), "Widget")
		must(t, c.Delete(t.Context(), cms[0]))
		r.take()
		want(t, "both are deleted", watched(r.Informers), "")
		stop()
	})
}

// Watches belong to a cluster, and end with it.
func TestWatchForInClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, east := apitest.New(), apitest.New(widgets)
		c, cms := user(t, east, "e")
		cms[0].Data = map[string]string{"kinds": "Widget"}
		must(t, c.Update(t.Context(), cms[0]))
		r := &caller{do: needsKinds}
		stop := runIn(t, operator.Config{REST: hub.REST(), Clusters: map[string]*rest.Config{"east": east.REST()}},
			operator.For(r.construct))
		want(t, "start", r.take(), "e")
		must(t, c.Create(t.Context(), ownedBy(dynamic(widgets, "w"), cms[0])))
		want(t, "a widget in the east", r.take(), "e")
		want(t, "watches in the hub", watched(r.Informers), "")
		must(t, r.Manager.Disengage("east"))
		time.Sleep(time.Minute)
		_, err := r.Manager.Engage("east", east.REST())
		must(t, err)
		want(t, "engaged again, with a widget", r.take(), "e e")
		must(t, c.Create(t.Context(), ownedBy(dynamic(widgets, "w2"), cms[0])))
		want(t, "a widget in the new cluster", r.take(), "e")
		stop()
	})
}

// Arguments that WatchFor rejects.
func TestWatchForErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		_, _ = user(t, s, "a")
		var errs []error
		r := &caller{do: func(ctx context.Context, d operator.Deps, _ *corev1.ConfigMap) error {
			errs = append(errs,
				d.WatchFor(ctx, operator.Concurrency(2)),
				d.WatchFor(ctx, operator.From(nil)),
				d.WatchFor(ctx, operator.FilterAll(func(operator.Event) bool { return true })),
				d.WatchFor(ctx, operator.Watches(func(visitor, context.Context, *corev1.Pod) []operator.Request {
					return nil
				})),
				d.WatchFor(context.Background(), operator.Owns[corev1.Pod]()))
			return nil
		}}
		stop := runIn(t, operator.Config{REST: s.REST()}, operator.For(r.construct),
			operator.Setup(func(d operator.Deps) error {
				errs = append(errs, d.WatchFor(context.Background()))
				_, err := d.Watch(nil)
				errs = append(errs, err)
				return nil
			}))
		time.Sleep(time.Second)
		stop()
		for i, want := range []string{"can only be called by a reconciler", "can only be called by a reconciler",
			"only Owns", "only Owns", "only Owns", "the reconciler is a *operator_test.caller",
			"call WatchFor in Reconcile"} {
			if len(errs) != 7 || errs[i] == nil || !strings.Contains(errs[i].Error(), want) {
				t.Errorf("error %d: %v", i, errs)
			}
		}
	})
}
