package informer_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
)

// newLagging returns a fixture whose informers receive each event a minute late.
func newLagging(t *testing.T, change ...func(*informer.Config)) *fixture {
	w := newFixture(t, change...)
	w.run()
	_, err := client.List[corev1.Pod](t.Context(), w.client)
	w.must(err)
	w.lag(time.Minute)
	return w
}

func (w *fixture) lag(d time.Duration) {
	time.Sleep(2 * time.Second) // a watch that ends immediately is retried only later
	w.server.SetFaults(apitest.Faults{WatchLag: d})
	w.server.CutWatches() // the lag applies to new watches
	time.Sleep(time.Second)
	synctest.Wait()
}

// get returns the pod from the informer's client, or nil.
func (w *fixture) get(name string) *corev1.Pod {
	w.t.Helper()
	p, err := client.Get[corev1.Pod](w.ctx, w.client, client.Key{Namespace: "default", Name: name})
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return p
}

func (w *fixture) names(opts ...client.ListOption) string {
	w.t.Helper()
	pods, err := client.List[corev1.Pod](w.ctx, w.client, opts...)
	w.must(err)
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

// atOnce fails the test if f takes (virtual) time: it must be answered from memory.
func (w *fixture) atOnce(f func()) {
	w.t.Helper()
	begin := time.Now()
	f()
	if took := time.Since(begin); took > 0 {
		w.t.Errorf("took %v", took)
	}
}

// A client reads each of its writes at once, although the informer lags behind, and a deleted
// object does not reappear.
func TestReadsItsOwnWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLagging(t)
		a := labelled(pod("a"), "1")
		w.atOnce(func() {
			w.must(w.client.Create(w.ctx, a))
			read := w.get("a")
			if read == nil || read.ResourceVersion != a.ResourceVersion || read == a {
				t.Fatalf("after create: %v", read)
			}
			read.Labels["v"] = "changed by its owner" // the result of a read is a private copy
			if w.get("a").Labels["v"] != "1" || a.Labels["v"] != "1" {
				t.Error("the copy is shared")
			}

			w.must(w.client.Update(w.ctx, labelled(a, "2")))
			assert.Equalf(t, w.get("a").Labels["v"], "2", "after update")
			patch := client.MergeFrom(a)
			w.must(w.client.Patch(w.ctx, labelled(a, "3"), patch))
			assert.Equalf(t, w.get("a").Labels["v"], "3", "after patch")
			w.must(w.client.Apply(w.ctx, labelled(pod("a"), "4")))
			assert.Equalf(t, w.get("a").Labels["v"], "4", "after apply")
			a = w.get("a")
			a.Status.Phase = corev1.PodRunning
			w.must(w.client.Subresource("status").Update(w.ctx, a, nil))
			assert.Equalf(t, w.get("a").Status.Phase, corev1.PodRunning, "after status")
			w.must(w.client.Subresource("binding").Create(w.ctx, a, &corev1.Binding{}))
			if w.get("a").Annotations["binding"] == "" {
				t.Error("after a binding, whose response lacks the object")
			}
			w.must(w.client.Update(w.ctx, w.get("a"))) // no conflict with the client's own write

			w.must(w.client.Delete(w.ctx, a))
			if p := w.get("a"); p != nil {
				t.Errorf("after delete: %v", p)
			}
			again := pod("a")
			w.must(w.client.Create(w.ctx, again))
			if p := w.get("a"); p == nil || p.UID != again.UID {
				t.Errorf("after it was created again: %v", p)
			}
			w.must(w.client.Delete(w.ctx, again))
			if p := w.get("a"); p != nil {
				t.Errorf("after it was deleted again: %v", p)
			}
		})
		w.must(w.client.Create(w.ctx, pod("last")))
		for range 30 { // while the informer receives these events
			if p := w.get("a"); p != nil {
				t.Fatalf("the deleted object reappeared: %v", p)
			}
			if w.get("last") == nil {
				t.Fatal("the last object is missing")
			}
			time.Sleep(time.Minute)
		}
		w.isDrained()
	})
}

// isDrained fails the test if the overlay has entries left.
func (w *fixture) isDrained() {
	w.t.Helper()
	assert.Equalf(w.t, informer.Pending(w.set), 0, "entries are left over the copies")
}

// Lists with each kind of selector include the client's own writes, although the informer lags
// behind.
func TestListsHaveOwnWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.run()
		inf := w.pods()
		w.must(inf.AddIndex("node", func(obj client.Object) []string {
			return []string{obj.(*corev1.Pod).Spec.NodeName}
		}))
		old, doomed := labelled(pod("old"), "1"), labelled(pod("doomed"), "1")
		w.create(old, doomed)
		w.must(w.set.WaitForSync(t.Context()))
		w.lag(time.Minute)
		fresh := labelled(pod("fresh"), "1")
		fresh.Spec.NodeName = "n1"
		elsewhere := labelled(pod("elsewhere"), "1")
		elsewhere.Namespace = "other"
		w.must(w.client.Create(w.ctx, fresh))
		w.must(w.client.Create(w.ctx, elsewhere))
		w.must(w.client.Update(w.ctx, labelled(old, "2")))
		w.must(w.client.Delete(w.ctx, doomed))
		for name, tt := range map[string]struct {
			opts []client.ListOption
			want string
		}{
			"all":            {nil, "fresh old elsewhere"},
			"namespace":      {[]client.ListOption{client.InNamespace("default")}, "fresh old"},
			"label":          {[]client.ListOption{client.MatchingLabels{"v": "1"}}, "fresh elsewhere"},
			"changed label":  {[]client.ListOption{client.MatchingLabels{"v": "2"}}, "old"},
			"index":          {[]client.ListOption{client.MatchingFields{"node": "n1"}}, "fresh"},
			"index and more": {[]client.ListOption{client.MatchingFields{"node": "n1", "metadata.name": "x"}}, ""},
			"field":          {[]client.ListOption{client.MatchingFields{"spec.nodeName": "n1"}}, "fresh"},
			"no field": {[]client.ListOption{client.MatchingFields{"spec.nodeName": "",
				"metadata.namespace": "default"}}, "old"},
			"not": {[]client.ListOption{
				client.ListOptions{Fields: fields.ParseSelectorOrDie("spec.nodeName!=n1")}}, "old elsewhere"},
			"page": {[]client.ListOption{client.Limit(2)}, "fresh old"},
			"live": {[]client.ListOption{client.Live}, "fresh old elsewhere"},
		} {
			w.atOnce(func() {
				assert.Equalf(t, w.names(tt.opts...), tt.want, "%s", name)
			})
		}
		var names []string
		for p, err := range client.Each[corev1.Pod](w.ctx, w.client, client.Limit(1)) {
			w.must(err)
			names = append(names, p.Name)
		}
		assert.Equalf(t, strings.Join(names, " "), "fresh old elsewhere", "page by page")
		if _, err := client.List[corev1.Pod](w.ctx, w.client,
			client.MatchingFields{"spec.nodName": "n1"}); !apierrors.IsBadRequest(err) {
			t.Errorf("unknown field: %v", err)
		}
		time.Sleep(20 * time.Minute)
		assert.Equalf(t, w.names(), "fresh old elsewhere", "in the end")
		w.isDrained()
	})
}

// A deleted object with a finalizer stays until the finalizer is removed, and does not reappear
// afterwards.
func TestSlowDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLagging(t)
		held := pod("held")
		held.Finalizers = []string{"example.com/hold"}
		w.must(w.client.Create(w.ctx, held))
		w.must(w.client.Delete(w.ctx, held))
		p := w.get("held")
		if p == nil || p.DeletionTimestamp == nil {
			t.Fatalf("an object with a finalizer is gone: %v", p)
		}
		p.Finalizers = nil
		w.must(w.client.Update(w.ctx, p)) // the response is the object, which is then deleted
		w.atOnce(func() {
			if p := w.get("held"); p != nil {
				t.Errorf("an object without finalizers remains: %v", p)
			}
		})
		for range 10 {
			time.Sleep(time.Minute)
			if p := w.get("held"); p != nil {
				t.Errorf("the deleted object reappeared: %v", p)
			}
		}
		w.isDrained()
	})
}

// The responses to most deletes have a uid and no version.
func TestDeletesWithoutVersion(t *testing.T) {
	cm := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cm"}}
	}
	for name, seen := range map[string]bool{"known to the informer": true, "not yet known": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLagging(t)
				get := func() error { return w.client.Get(w.ctx, client.KeyOf(cm()), cm()) }
				if seen {
					w.create(cm())
				}
				err := get()
				require.Equalf(t, err == nil, seen, "%v", err)
				if !seen {
					w.create(cm()) // by another client
				}
				w.must(w.client.Delete(w.ctx, cm()))
				for range 8 {
					if err := get(); !apierrors.IsNotFound(err) {
						t.Fatalf("after delete: %v", err)
					}
					time.Sleep(time.Minute)
				}
				w.create(cm())
				time.Sleep(4 * time.Minute)
				assert.NoErrorf(t, get(), "another object with that name")
				w.isDrained()
			})
		})
	}
}

// A deletion that gets 404 shows that another client has deleted the object.
func TestDeleteOfMissingObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.create(pod("a"))
		w.run()
		if w.get("a") == nil {
			t.Fatal("missing")
		}
		w.lag(time.Minute)
		w.must(w.direct.Delete(w.ctx, pod("a"))) // by another client
		if w.get("a") == nil {
			t.Fatal("the informer has the write already")
		}
		if err := w.client.Delete(w.ctx, pod("a")); !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		if p := w.get("a"); p != nil { // the server has reported it
			t.Errorf("got %v", p)
		}
	})
}

// After DeleteAllOf, reads have only the objects that finalizers keep.
func TestDeleteAllOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		held := pod("held")
		held.Finalizers = []string{"example.com/hold"}
		w.create(pod("a"), held)
		w.run()
		w.must(w.set.WaitForSync(t.Context()))
		w.names()
		w.lag(time.Minute)
		w.create(pod("b"))
		w.must(w.client.DeleteAllOf(w.ctx, &corev1.Pod{}, client.InNamespace("default")))
		if p := w.get("a"); p != nil {
			t.Errorf("a is there: %v", p)
		}
		assert.Equalf(t, w.names(), "held", "left")
		if p := w.get("held"); p == nil || p.DeletionTimestamp == nil {
			t.Errorf("held is %v", p)
		}
		time.Sleep(20 * time.Minute)
		assert.Equalf(t, w.names(), "held", "left in the end")
		w.isDrained()
	})
}

// A dry run is not visible to reads.
func TestDryRunDoesNotWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLagging(t)
		w.must(w.client.Create(w.ctx, pod("a"), client.DryRunAll))
		if p := w.get("a"); p != nil {
			t.Errorf("got %v", p)
		}
	})
}

// A written object cannot be converted to all other forms: a read of another form waits for the
// informer, and asks the server after a second.
func TestOtherForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLagging(t)
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(u.GroupVersionKind())
		key := client.KeyOf(pod("a"))
		for _, obj := range []client.Object{u, m} {
			if err := w.client.Get(w.ctx, key, obj); !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
		w.must(w.client.Create(w.ctx, labelled(pod("a"), "1")))
		for _, obj := range []client.Object{u, m} {
			w.must(w.client.Get(w.ctx, key, obj))
			assert.Equalf(t, obj.GetLabels()["v"], "1", "%T: %v", obj, obj)
		}
		items := client.NewItems(u)
		w.must(w.client.List(w.ctx, items))
		assert.Lenf(t, items.Items, 1, "listed")
		w.lag(10 * time.Millisecond)
		w.must(w.client.Update(w.ctx, labelled(w.get("a"), "2")))
		begin := time.Now()
		w.must(w.client.Get(w.ctx, key, u))
		if took := time.Since(begin); u.GetLabels()["v"] != "2" || took != 10*time.Millisecond {
			t.Errorf("after %v: %v", took, u)
		}
	})
}

// Own writes to objects outside of the scope are not visible to reads.
func TestWritesOutOfScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLagging(t, func(c *informer.Config) {
			c.Scope = informer.Scope{Labels: labels.SelectorFromSet(labels.Set{"v": "1"}),
				Fields: fields.ParseSelectorOrDie("spec.nodeName=n1")}
		})
		in := labelled(pod("in"), "1")
		in.Spec.NodeName = "n1"
		label := labelled(pod("label"), "2")
		label.Spec.NodeName = "n1"
		for _, p := range []*corev1.Pod{in, label, labelled(pod("field"), "1")} {
			w.must(w.client.Create(w.ctx, p))
		}
		w.atOnce(func() {
			assert.Equal(t, w.names(), "in")
			if w.get("label") != nil || w.get("field") != nil || w.get("in") == nil {
				t.Error("get ignores the scope")
			}
		})
		w.must(w.client.Update(w.ctx, labelled(in, "3")))
		for range 8 {
			assert.Equal(t, w.names(), "")
			time.Sleep(time.Minute)
		}
		w.isDrained()
	})
}

// A read from the server, instead of from a late informer, has the informer's scope.
func TestServerReadsKeepTheScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLagging(t, func(c *informer.Config) {
			c.Scope = informer.Scope{Namespaces: []string{"default", "b"},
				Labels: labels.SelectorFromSet(labels.Set{"v": "1"})}
		})
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
		must := func(err error) {
			t.Helper()
			w.must(err)
		}
		must(w.client.List(w.ctx, client.NewItems(u)))
		far := labelled(pod("far"), "1")
		far.Namespace = "c"
		for _, p := range []*corev1.Pod{labelled(pod("in"), "1"), labelled(pod("also"), "1"), labelled(pod("out"), "2"),
			far} {
			must(w.client.Create(w.ctx, p))
		}
		var names []string
		for obj, err := range client.Each[unstructured.Unstructured](w.ctx, w.client,
			client.OfKind(u.GroupVersionKind()), client.Limit(1)) {
			must(err)
			names = append(names, obj.GetName())
		}
		assert.Equalf(t, strings.Join(names, " "), "also in", "listed")
		if err := w.client.Get(w.ctx, client.KeyOf(pod("out")), u); !apierrors.IsNotFound(err) {
			t.Errorf("got %v", err)
		}
		must(w.client.Get(w.ctx, client.KeyOf(pod("in")), u))
		// another namespace: the read goes to the server
		must(w.client.Get(w.ctx, client.KeyOf(far), u))
	})
}

// Versions that are not numbers cannot be compared: reads go to the server until the informer has
// the version of the write.
func TestOpaqueVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLagging(t)
		a := pod("a")
		w.must(w.client.Create(w.ctx, a))
		reads := 0
		w.server.SetFaults(apitest.Faults{Intercept: func(rw http.ResponseWriter, r *http.Request) bool {
			switch r.Method {
			case http.MethodPut:
				_, _ = rw.Write([]byte(`{"metadata":{"namespace":"default","name":"a","uid":"uid-1","resourceVersion":"opaque"}}`))
				return true
			case http.MethodGet:
				reads++
			}
			return false
		}})
		w.must(w.client.Update(w.ctx, a))
		w.get("a")
		w.names()
		assert.Equalf(t, reads, 2, "reads from the server")
	})
}

// The same on a server with such versions only, for objects, lists and deletes; this is logged
// once.
func TestServerWithOpaqueVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.server.SetOpaque()
		w.run()
		w.names()
		w.server.SetFaults(apitest.Faults{WatchLag: time.Minute})
		a, b := labelled(pod("a"), "1"), pod("b")
		w.must(w.client.Create(w.ctx, a))
		w.must(w.client.Create(w.ctx, b))
		if got := w.get("a"); got == nil || got.ResourceVersion != a.ResourceVersion {
			t.Errorf("after the create: %v", got)
		}
		assert.Equalf(t, w.names(), "a b", "listed")
		w.must(w.client.Update(w.ctx, labelled(a, "2")))
		if got := w.get("a"); got == nil || got.Labels["v"] != "2" {
			t.Errorf("after the update: %v", got)
		}
		w.must(w.client.Delete(w.ctx, b))
		if got := w.get("b"); got != nil {
			t.Errorf("after the delete: %v", got)
		}
		assert.Equalf(t, w.names(), "a", "listed")
		if n := strings.Count(w.log.String(), "are not numbers"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, w.log.String())
		}
		time.Sleep(20 * time.Minute)
		reads := 0
		w.server.SetFaults(apitest.Faults{Intercept: func(_ http.ResponseWriter, r *http.Request) bool {
			reads++
			return false
		}})
		w.get("a")
		w.names()
		if reads != 0 || w.names() != "a" {
			t.Errorf("%d reads from the server after the informer has caught up; %q", reads, w.names())
		}
		w.isDrained()
	})
}

// A reset server counts from the beginning: earlier writes must not overlay the copy forever.
func TestResetServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLagging(t)
		w.must(w.client.Create(w.ctx, pod("before")))
		if w.get("before") == nil {
			t.Fatal("not written")
		}
		w.server.SetRevision(50)
		time.Sleep(5 * time.Minute)
		if p := w.get("before"); p != nil {
			t.Errorf("it is there: %v", p)
		}
	})
}

// An object that its writer has given away is stored without a copy, and can be read in place.
func TestGivenAndShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLagging(t, func(c *informer.Config) { c.Form = informer.Full })
		given, kept := labelled(pod("a"), "1"), labelled(pod("b"), "1")
		w.must(w.client.Create(t.Context(), given, client.WriteOptions{Given: true}))
		w.must(w.client.Create(t.Context(), kept))
		shared := func(name string, opts client.GetOptions) (got *corev1.Pod, in client.Object) {
			got = &corev1.Pod{}
			opts.Shared = &in
			w.must(w.client.Get(t.Context(), client.Key{Namespace: "default", Name: name}, got, opts))
			return got, in
		}
		if got, in := shared("a", client.GetOptions{}); in != client.Object(given) || got == given ||
			got.Labels["v"] != "1" {
			t.Errorf("given: %p, want %p; a copy: %+v", in, given, got)
		}
		if _, in := shared("b", client.GetOptions{}); in == nil || in == client.Object(kept) ||
			in.GetLabels()["v"] != "1" {
			t.Errorf("not given: %p, written %p", in, kept)
		}
		if _, in := shared("a", client.GetOptions{Live: true}); in != nil {
			t.Errorf("from the server: %+v", in)
		}
		time.Sleep(2 * time.Minute)
		// The watch has delivered the object that was given away, which is not decoded again.
		if got, in := shared("a", client.GetOptions{}); in != client.Object(given) || got == given ||
			got.Labels["v"] != "1" {
			t.Errorf("given, after the watch: %p, want %p; a copy: %+v", in, given, got)
		}
		if _, in := shared("b", client.GetOptions{}); in == nil || in == client.Object(kept) ||
			in.GetLabels()["v"] != "1" {
			t.Errorf("not given, after the watch: %p, written %p", in, kept)
		}
		// Writes of others, and objects given away earlier, are distinguished from it.
		others, err := client.Get[corev1.Pod](t.Context(), w.direct, client.KeyOf(given))
		w.must(err)
		others.Labels["v"] = "2"
		w.must(w.direct.Update(t.Context(), others))
		time.Sleep(2 * time.Minute)
		if got, in := shared("a", client.GetOptions{}); in == nil || in == client.Object(given) ||
			got.Labels["v"] != "2" {
			t.Errorf("after another's write: %+v", in)
		}
	})
}

// An informer that keeps objects encoded has no object to share with a caller of Get.
func TestNothingShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, func(c *informer.Config) { c.Form = informer.Compact })
		w.create(pod("a"))
		w.run()
		var in client.Object
		w.must(w.client.Get(t.Context(), client.Key{Namespace: "default", Name: "a"}, &corev1.Pod{},
			client.GetOptions{Shared: &in}))
		if in != nil {
			t.Errorf("shared: %+v", in)
		}
	})
}

// A transform gets a copy, even of an object that its writer has given away, because that object
// may share parts with others.
func TestTransformOfGivenObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, func(cfg *informer.Config) {
			cfg.Transform = func(obj client.Object) client.Object {
				obj.SetLabels(map[string]string{"v": "transformed"})
				return obj
			}
		})
		w.pods()
		w.run()
		w.must(w.set.WaitForSync(t.Context()))
		given := labelled(pod("a"), "1")
		w.must(w.client.Create(t.Context(), given, client.WriteOptions{Given: true}))
		assert.Equalf(t, given.Labels["v"], "1", "the object that was given away has become %v", given.Labels)
		got, err := client.Get[corev1.Pod](t.Context(), w.client, client.KeyOf(given))
		w.must(err)
		assert.Equalf(t, got.Labels["v"], "transformed", "a read returns %v", got.Labels)
	})
}

// Own writes are in the scope by their state on the server, although the transform removes what the
// scope selects by.
func TestTransformRemovesTheScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLagging(t, func(c *informer.Config) {
			c.Scope = informer.Scope{Labels: labels.SelectorFromSet(labels.Set{"v": "1"}),
				Fields: fields.ParseSelectorOrDie("spec.nodeName=n1")}
			c.Transform = func(obj client.Object) client.Object {
				obj.SetLabels(nil)
				if p, ok := obj.(*corev1.Pod); ok {
					p.Spec.NodeName = ""
				}
				return obj
			}
		})
		in := labelled(pod("in"), "1")
		in.Spec.NodeName = "n1"
		for _, p := range []*corev1.Pod{in, labelled(pod("field"), "1")} {
			w.must(w.client.Create(w.ctx, p))
		}
		w.atOnce(func() {
			assert.Equalf(t, w.names(), "in", "listed")
			if w.get("in") == nil || w.get("field") != nil {
				t.Error("get ignores the scope")
			}
			if obj, ok := w.pods().Get(client.KeyOf(in)); !ok || len(w.pods().List("default")) != 1 {
				t.Errorf("the informer has %v", obj)
			}
		})
	})
}

// Reads from the server, instead of from a late informer, are transformed too.
func TestServerReadsAreTransformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLagging(t, func(c *informer.Config) {
			c.Transform = func(obj client.Object) client.Object {
				obj.SetAnnotations(map[string]string{"transformed": "yes"})
				return obj
			}
		})
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
		w.must(client.IgnoreNotFound(w.client.Get(w.ctx, client.KeyOf(pod("a")), u)))
		w.must(w.client.Create(w.ctx, pod("a")))
		w.must(w.client.Get(w.ctx, client.KeyOf(pod("a")), u))
		items := client.NewItems(u)
		w.must(w.client.List(w.ctx, items))
		for _, obj := range append(items.Items, u) {
			assert.Equalf(t, obj.GetAnnotations()["transformed"], "yes", "read %v", obj)
		}
	})
}

// Reads from an informer include this process's writes, within the scope of the informer.
func TestInformerShowsOwnWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, func(c *informer.Config) {
			c.Scope.Labels = labels.SelectorFromSet(labels.Set{"in": "scope"})
		})
		make := func(namespace, name, v string) *corev1.Pod {
			p := pod(name)
			p.Namespace, p.Labels = namespace, map[string]string{"in": "scope", "v": v}
			return p
		}
		a, b, c := make("default", "a", "1"), make("default", "b", "1"), make("default", "c", "1")
		w.create(a, b, c)
		inf := w.pods()
		w.must(inf.AddIndex("v", func(obj client.Object) []string { return []string{obj.GetLabels()["v"]} }))
		w.run()
		w.must(w.set.WaitForSync(w.ctx))
		w.lag(time.Minute)
		a.Labels["v"] = "2"
		w.must(w.client.Update(w.ctx, a))
		w.must(w.client.Delete(w.ctx, b))
		delete(c.Labels, "in") // it leaves the scope
		w.must(w.client.Update(w.ctx, c))
		w.must(w.client.Create(w.ctx, make("other", "d", "2")))
		w.must(w.client.Create(w.ctx, pod("outside")))
		names := func(objs []client.Object) string {
			var all []string
			for _, obj := range objs {
				all = append(all, obj.GetName()+obj.GetLabels()["v"])
			}
			slices.Sort(all)
			return strings.Join(all, " ")
		}
		check := func(when string) {
			t.Helper()
			w.atOnce(func() {
				index := func(value string) string {
					objs, err := inf.ByIndex("v", value)
					w.must(err)
					return names(objs)
				}
				for what, tt := range map[string]struct{ got, want string }{
					"all": {names(inf.List("")), "a2 d2"}, "namespace": {names(inf.List("default")), "a2"},
					"old index": {index("1"), ""}, "index": {index("2"), "a2 d2"},
				} {
					assert.Equalf(t, tt.got, tt.want, "%s, %s", when, what)
				}
				for name, want := range map[string]bool{"a": true, "b": false, "c": false, "outside": false} {
					obj, ok := inf.Get(client.Key{Namespace: "default", Name: name})
					if ok != want || ok && obj.GetLabels()["v"] != "2" {
						t.Errorf("%s, %s: %v", when, name, obj)
					}
				}
			})
		}
		check("immediately")
		time.Sleep(10 * time.Minute)
		check("later")
		w.isDrained()
	})
}
