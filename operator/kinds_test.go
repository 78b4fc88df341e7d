package operator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/trace"
)

var (
	widgets = apitest.NewKind("example.com", "v1", "Widget", "widgets")
	gadgets = apitest.NewKind("example.com", "v1", "Gadget", "gadgets")
)

// dynamic returns an object without a Go type.
func dynamic(kind apitest.Kind, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind.GroupVersionKind)
	u.SetNamespace("default")
	u.SetName(name)
	return u
}

func ownedBy(obj client.Object, owners ...*corev1.ConfigMap) client.Object {
	for i, o := range owners {
		controller := i == 0
		obj.SetOwnerReferences(append(obj.GetOwnerReferences(),
			metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: o.Name, UID: o.UID,
				Controller: &controller}))
	}
	return obj
}

// caller is a reconciler that calls a function, and records the names of the objects.
type caller struct {
	operator.Deps
	do func(context.Context, operator.Deps, *corev1.ConfigMap) error

	mu   sync.Mutex
	seen []string
}

func (c *caller) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	c.mu.Lock()
	c.seen = append(c.seen, cm.Name)
	c.mu.Unlock()
	if c.do == nil {
		return operator.Result{}, nil
	}
	return operator.Result{}, c.do(ctx, c.Deps, cm)
}

// take waits until the operator is idle, and returns the objects reconciled since the last call.
func (c *caller) take() string {
	time.Sleep(5 * time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	names := strings.Join(c.seen, " ")
	c.seen = nil
	return names
}

func (c *caller) construct(d operator.Deps) *caller { c.Deps = d; return c }

// named reconciles the ConfigMap that an object's annotation names.
func (c *caller) named(_ context.Context, obj *metav1.PartialObjectMetadata) []operator.Request {
	return []operator.Request{{NamespacedName: client.Key{Namespace: obj.Namespace, Name: obj.Annotations["config"]}}}
}

// user returns a client of a server, and ConfigMaps of the given names on it.
func user(t *testing.T, s *apitest.Server, names ...string) (client.Client, []*corev1.ConfigMap) {
	t.Helper()
	c, err := client.New(client.Config{REST: s.REST()})
	must(t, err)
	var all []*corev1.ConfigMap
	for _, name := range names {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		must(t, c.Create(t.Context(), cm))
		all = append(all, cm)
	}
	return c, all
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	assert.Equalf(t, got, want, "%s", what)
}

// Kinds without Go types, as complete objects and as metadata, in Owns, Watches, For and Cache.
func TestKindsByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New(widgets, gadgets)
		c, cms := user(t, s, "a", "b")
		r, own := &caller{}, &dynamicCaller{}
		stop := runIn(t, operator.Config{REST: s.REST()},
			operator.For(r.construct,
				operator.OwnsKind[metav1.PartialObjectMetadata](widgets.GroupVersionKind),
				operator.WatchesKind(gadgets.GroupVersionKind, (*caller).named)),
			operator.For(func(operator.Client) *dynamicCaller { return own }, operator.Kind(widgets.GroupVersionKind)),
			operator.For(func(operator.Client) metadataCaller {
				return metadataCaller{own}
			}, operator.Kind(gadgets.GroupVersionKind)),
			operator.CacheKind(widgets.GroupVersionKind, informer.Scope{Namespaces: []string{"default"}}))
		want(t, "start", r.take(), "a b")
		must(t, c.Create(t.Context(), ownedBy(dynamic(widgets, "w"), cms[1], cms[0])))
		want(t, "owned", r.take(), "b")
		g := dynamic(gadgets, "g")
		g.SetAnnotations(map[string]string{"config": "a"})
		must(t, c.Create(t.Context(), g))
		want(t, "watched", r.take(), "a")
		other := dynamic(widgets, "elsewhere")
		other.SetNamespace("other")
		must(t, c.Create(t.Context(), other))
		want(t, "in another namespace", r.take(), "")
		own.mu.Lock()
		want(t, "own kinds", strings.Join(own.seen, ", "), "Widget w, Gadget g with 1 annotations")
		own.mu.Unlock()
		stop()
	})
}

type dynamicCaller struct {
	mu   sync.Mutex
	seen []string
}

func (d *dynamicCaller) Reconcile(_ context.Context, u *unstructured.Unstructured) (operator.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, u.GetKind()+" "+u.GetName())
	return operator.Result{}, nil
}

type metadataCaller struct{ *dynamicCaller }

func (d metadataCaller) Reconcile(_ context.Context, m *metav1.PartialObjectMetadata) (operator.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, fmt.Sprintf("%s %s with %d annotations", m.Kind, m.Name, len(m.Annotations)))
	return operator.Result{}, nil
}

// Every owner, a filter for all kinds, and priorities.
func TestOwnersFiltersPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		c, cms := user(t, s, "a", "b", "c", "ignored")
		r := &caller{}
		stop := runIn(t, operator.Config{REST: s.REST()}, operator.For(r.construct,
			operator.Owns[corev1.Pod](), operator.MatchEveryOwner(),
			operator.FilterAll(func(e operator.Event) bool { return e.Object.GetName() != "ignored" }),
			operator.Priority(func(e operator.Event) int {
				return map[string]int{"a": 1, "b": 2, "c": 3}[e.Object.GetName()]
			})))
		want(t, "by priority, without the filtered one", r.take(), "c b a")
		must(t, c.Create(t.Context(), ownedBy(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
			Name: "p"}}, cms[0], cms[1])))
		got := strings.Fields(r.take())
		slices.Sort(got)
		want(t, "all owners", strings.Join(got, " "), "a b")
		must(t, c.Create(t.Context(), ownedBy(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
			Name: "ignored"}}, cms[0])))
		want(t, "a filtered pod", r.take(), "")
		stop()
	})
}

// Indexes of a Go type, of dynamic objects and of metadata, in all clusters.
func TestIndexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, east := apitest.New(widgets),
			apitest.New(widgets)
		for s, suffix := range map[*apitest.Server]string{hub: "-hub", east: "-east"} {
			c, _ := user(t, s, "reconciled")
			for _, name := range []string{"x1", "x2", "y1"} {
				must(t, c.Create(t.Context(), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "others", Name: name + suffix,
						Labels: map[string]string{"n": name[1:]}}, Data: map[string]string{"color": name[:1]},
				}))
			}
			w := dynamic(widgets, "w"+suffix)
			w.SetAnnotations(map[string]string{"color": "x"})
			must(t, c.Create(t.Context(), w))
		}
		color := func(cm *corev1.ConfigMap) []string { return []string{cm.Data["color"]} }
		results := map[string]string{}
		list := func(ctx context.Context, d operator.Deps, cm *corev1.ConfigMap) error {
			if cm.Name != "reconciled" {
				return nil
			}
			names := func(cms []*corev1.ConfigMap, err error) string {
				if err != nil {
					return err.Error()
				}
				var all []string
				for _, cm := range cms {
					all = append(all, cm.Name)
				}
				return strings.Join(all, " ")
			}
			cluster, err := d.Cluster(ctx)
			must(t, err)
			by := client.MatchingIndex{"color": "x"}
			results[cluster.Name()+" x"] = names(client.List[corev1.ConfigMap](ctx, d.Client, by))
			results[cluster.Name()+" x and label"] = names(client.List[corev1.ConfigMap](ctx, d.Client, by,
				client.MatchingLabels{"n": "2"}))
			results[cluster.Name()+" x and y"] = names(client.List[corev1.ConfigMap](ctx, d.Client, by,
				client.MatchingIndex{"color": "y"}))
			results[cluster.Name()+" in a namespace"] = names(client.List[corev1.ConfigMap](ctx, d.Client, by,
				client.InNamespace("default")))
			// a read returns the preceding write
			must(t, d.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "others",
				Name: "new"}, Data: map[string]string{"color": "x"}}))
			results[cluster.Name()+" after a write"] = names(client.List[corev1.ConfigMap](ctx, d.Client, by))
			for what, err := range map[string]error{
				"unknown": listError(client.List[corev1.ConfigMap](ctx, d.Client, client.MatchingIndex{"size": "x"})),
				"live":    listError(client.List[corev1.ConfigMap](ctx, d.Live, by)),
				"dynamic": listError(client.List[unstructured.Unstructured](ctx, d.Client, by,
					client.OfKind(corev1.SchemeGroupVersion.WithKind("ConfigMap")))),
			} {
				assert.ErrorIsf(t, err, client.ErrNoIndex, "%s", what)
			}
			dynamic, err := client.List[unstructured.Unstructured](ctx, d.Client, by, client.OfKind(widgets.GroupVersionKind))
			must(t, err)
			metadata, err := client.List[metav1.PartialObjectMetadata](ctx, d.Client,
				client.MatchingIndex{"annotated": "x"}, client.OfKind(widgets.GroupVersionKind))
			must(t, err)
			if len(dynamic) != 1 || len(metadata) != 1 || dynamic[0].GetName() != metadata[0].Name {
				t.Errorf("%s: %v, %v", cluster.Name(), dynamic, metadata)
			}
			return nil
		}
		r := &caller{do: list}
		stop := runIn(t, operator.Config{REST: hub.REST(), Clusters: map[string]*rest.Config{"east": east.REST()}},
			operator.For(r.construct), operator.Index("color", color),
			operator.IndexKind(widgets.GroupVersionKind, "color", func(u *unstructured.Unstructured) []string {
				return []string{u.GetAnnotations()["color"]}
			}),
			operator.IndexKind(widgets.GroupVersionKind, "annotated", func(m *metav1.PartialObjectMetadata) []string {
				return []string{m.Annotations["color"]}
			}))
		time.Sleep(time.Second)
		stop()
		for _, cluster := range []string{"", "east"} {
			suffix := map[string]string{"": "-hub", "east": "-east"}[cluster]
			want(t, "x", results[cluster+" x"], "x1"+suffix+" x2"+suffix)
			want(t, "x and label", results[cluster+" x and label"], "x2"+suffix)
			want(t, "x and y", results[cluster+" x and y"], "")
			want(t, "in a namespace", results[cluster+" in a namespace"], "")
			want(t, "after a write", results[cluster+" after a write"], "new x1"+suffix+" x2"+suffix)
		}
	})
}

func listError[T any](_ T, err error) error { return err }

// Cache of one kind keeps the operator's namespaces, unless its scope has some.
func TestCacheInheritsNamespaces(t *testing.T) {
	for want, namespaces := range map[string][]string{"in-a": nil, "in-b": {"b"}, "in-a in-b": {metav1.NamespaceAll}} {
		synctest.Test(t, func(t *testing.T) {
			s := apitest.New()
			for _, namespace := range []string{"a", "b"} {
				create(t, s, namespace, "in-"+namespace, map[string]string{"x": "y"})
				create(t, s, namespace, "unlabelled-"+namespace, nil)
			}
			var v visits
			labelled := client.NewListOptions(client.MatchingLabels{"x": "y"}).Labels
			stop := runIn(t, operator.Config{REST: s.REST()}, operator.Namespaces("a"), operator.For(visiting(&v)),
				operator.Cache[corev1.ConfigMap](informer.Scope{Labels: labelled, Namespaces: namespaces}))
			time.Sleep(time.Second)
			assert.Equalf(t, strings.Join(v.names(), " "), want, "with %q", namespaces)
			stop()
		})
	}
}

// The writes of Deps.Live are in the trace, and reads of Deps.Client see them; its reads do not
// come from the cache.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		_, _ = user(t, s, "a")
		var reads []string
		s.SetFaults(apitest.Faults{Fail: func(verb, path string) (int, metav1.StatusReason) {
			if verb == "GET" && strings.HasSuffix(path, "/configmaps/new") {
				reads = append(reads, path)
			}
			return 0, ""
		}})
		r := &caller{do: func(ctx context.Context, d operator.Deps, cm *corev1.ConfigMap) error {
			if cm.Name != "a" {
				return nil
			}
			made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}}
			must(t, d.Live.Create(ctx, made))
			cached, err := client.Get[corev1.ConfigMap](ctx, d.Client, client.KeyOf(made))
			if err != nil || cached.ResourceVersion != made.ResourceVersion || len(reads) > 0 {
				t.Errorf("after a live write, the cache has %v, %v; reads: %v", cached, err, reads)
			}
			if _, err := client.Get[corev1.ConfigMap](ctx, d.Live, client.KeyOf(made)); err != nil || len(reads) != 1 {
				t.Errorf("a live read: %v; reads: %v", err, reads)
			}
			all, err := client.List[corev1.ConfigMap](ctx, d.Live)
			if err != nil || len(all) != 2 {
				t.Errorf("a live list: %v, %v", all, err)
			}
			return nil
		}}
		var mu sync.Mutex
		var writes []trace.Write
		sink := trace.Func(func(rec trace.Record) {
			mu.Lock()
			defer mu.Unlock()
			writes = append(writes, rec.Writes...)
		})
		stop := runIn(t, operator.Config{REST: s.REST(), Trace: sink}, operator.For(r.construct))
		time.Sleep(time.Second)
		stop()
		if len(writes) != 1 || writes[0].Verb != "create" || writes[0].Key.Name != "new" {
			t.Errorf("the trace has %+v", writes)
		}
	})
}

// Deps has what exec and logs need.
func TestRESTAndHTTPClientOfClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, east := apitest.New(), apitest.New()
		_, _ = user(t, hub, "a")
		_, _ = user(t, east, "b")
		eastREST := east.REST()
		eastREST.Host = "http://east"
		calls := 0
		r := &caller{do: func(ctx context.Context, d operator.Deps, cm *corev1.ConfigMap) error {
			calls++
			cluster, err := d.Cluster(ctx)
			must(t, err)
			h, err := cluster.HTTPClient()
			must(t, err)
			cfg := cluster.REST()
			resp, err := h.Get(cfg.Host + "/api/v1/namespaces/default/configmaps/" + cm.Name)
			must(t, err)
			_ = resp.Body.Close()
			if again, _ := cluster.HTTPClient(); resp.StatusCode != 200 || again != h || cfg == cluster.REST() ||
				(cfg.Host == "http://east") != (cm.Name == "b") {
				t.Errorf("%s at %s: %d", cm.Name, cfg.Host, resp.StatusCode)
			}
			return nil
		}}
		stop := runIn(t, operator.Config{REST: hub.REST(), Clusters: map[string]*rest.Config{"east": eastREST}},
			operator.For(r.construct))
		time.Sleep(time.Second)
		stop()
		assert.Equalf(t, calls, 2, "reconciles")
	})
}
