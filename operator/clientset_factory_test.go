package operator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/clientset"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
)

func newClientset(t *testing.T, s *apitest.Server) client.Client {
	t.Helper()
	c, err := clientset.Objects(s.REST(), nil)
	must(t, err)
	return c
}

func configMap(namespace, name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
}

var resource = corev1.Resource("configmaps")

// recorded records the calls of a client-go handler.
type recorded struct {
	mu  sync.Mutex
	all []string
}

func (h *recorded) note(what string, obj any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if stale, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		what, obj = what+" stale "+stale.Key, stale.Obj
	}
	h.all = append(h.all, what+" "+obj.(*corev1.ConfigMap).Name)
}

func (h *recorded) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { h.note(fmt.Sprint("add ", initial), obj) },
		UpdateFunc: func(_, obj any) { h.note("update", obj) },
		DeleteFunc: func(obj any) { h.note("delete", obj) },
	}
}

func (h *recorded) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.all
	h.all = nil
	slices.Sort(all)
	return all
}

func names(objs []*corev1.ConfigMap) string {
	var all []string
	for _, obj := range objs {
		all = append(all, obj.Namespace+"/"+obj.Name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// The factory of generated informers: one per kind, with listers, indexes and client-go's handlers,
// from Start to Shutdown.
func TestFactory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		c := newClientset(t, s)
		must(t, c.Create(t.Context(), configMap("one", "a", map[string]string{"x": "1"})))
		must(t, c.Create(t.Context(), configMap("two", "b", map[string]string{"x": "2"})))
		f := clientset.NewFactory(c, 0)
		inf := f.InformerFor(&corev1.ConfigMap{})
		assert.Equalf(t, f.InformerFor(&corev1.ConfigMap{}), inf, "two informers of one kind")
		must(t, inf.AddIndexers(cache.Indexers{"x": func(obj any) ([]string, error) {
			if x := obj.(*corev1.ConfigMap).Labels["x"]; x != "" {
				return []string{x}, nil
			}
			return nil, errors.New("the object has no label x")
		}}))
		var h recorded
		reg, err := inf.AddEventHandler(h.handler())
		must(t, err)
		if inf.HasSynced() || reg.HasSynced() {
			t.Error("synced before it runs")
		}
		f.StartWithContext(t.Context())
		f.StartWithContext(t.Context()) // does nothing
		must(t, f.WaitForCacheSyncWithContext(t.Context()))
		if synced := f.WaitForCacheSync(t.Context().Done()); !synced[reflect.TypeFor[*corev1.ConfigMap]()] {
			t.Errorf("synced: %v", synced)
		}
		<-reg.Synced()
		if got := h.take(); !slices.Equal(got, []string{"add true a", "add true b"}) || !inf.HasSynced() ||
			!reg.HasSynced() {
			t.Errorf("the handler got %q", got)
		}

		lister := clientset.NewLister[*corev1.ConfigMap](inf, resource)
		all, err := lister.List(labels.Everything())
		must(t, err)
		selected, err := lister.List(labels.SelectorFromSet(labels.Set{"x": "2"}))
		must(t, err)
		inOne, err := lister.Namespaced("one").List(nil)
		must(t, err)
		if names(all) != "one/a two/b" || names(selected) != "two/b" || names(inOne) != "one/a" {
			t.Errorf("listed %q, %q, %q", names(all), names(selected), names(inOne))
		}
		if cm, err := lister.Namespaced("one").Get("a"); err != nil || cm.Labels["x"] != "1" {
			t.Errorf("got %v, %v", cm, err)
		}
		if _, err := lister.Namespaced("two").Get("a"); !apierrors.IsNotFound(err) ||
			!strings.Contains(err.Error(), "configmaps") {
			t.Errorf("got %v", err)
		}
		if found, err := inf.ByIndex("x", "2"); err != nil || len(found) != 1 || found[0].GetName() != "b" {
			t.Errorf("found %v, %v", found, err)
		}
		if _, err := inf.ByIndex("y", "2"); err == nil {
			t.Error("no error for an unknown index")
		}

		b := configMap("two", "b", nil)
		must(t, c.Get(t.Context(), client.KeyOf(b), b))
		b.Labels = nil
		must(t, c.Update(t.Context(), b))
		must(t, c.Delete(t.Context(), configMap("one", "a", nil)))
		synctest.Wait()
		assert.Slicef(t, h.take(), []string{"delete a", "update b"}, "the handler")
		must(t, inf.RemoveEventHandler(reg))
		must(t, c.Create(t.Context(), configMap("one", "late", nil)))
		synctest.Wait()
		assert.Lenf(t, h.take(), 0, "a removed handler")
		f.Shutdown()
		f.Shutdown()
	})
}

// breakable is a transport that can cut watches; the server then drops its history.
type breakable struct {
	next http.RoundTripper
	mu   sync.Mutex
	cut  func() // ends the watch
}

func (b *breakable) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") != "true" {
		return b.next.RoundTrip(r)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut != nil && r.URL.Query().Get("sendInitialEvents") == "" {
		gone := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
		return &http.Response{StatusCode: http.StatusGone, Request: r,
			Header: http.Header{"Content-Type": {"application/json"}},
			Body:   io.NopCloser(strings.NewReader(gone))}, nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	b.cut = cancel
	return b.next.RoundTrip(r.WithContext(ctx))
}

// Objects deleted during an interrupted watch are reported as client-go does.
func TestStaleDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		direct := newClientset(t, s)
		must(t, direct.Create(t.Context(), configMap("one", "a", nil)))
		way := &breakable{next: s}
		c, err := clientset.Objects(&rest.Config{Host: s.REST().Host, Transport: way}, nil)
		must(t, err)
		f := clientset.NewFactory(c, 0)
		var h recorded
		_, err = f.InformerFor(&corev1.ConfigMap{}).AddEventHandler(h.handler())
		must(t, err)
		stop := make(chan struct{})
		f.Start(stop)
		must(t, f.WaitForCacheSyncWithContext(t.Context()))
		synctest.Wait()
		way.mu.Lock()
		way.cut()
		must(t, direct.Delete(t.Context(), configMap("one", "a", nil)))
		way.mu.Unlock()
		time.Sleep(time.Minute)
		close(stop)
		f.Shutdown()
		assert.Slicef(t, h.take(), []string{"add true a", "delete stale one/a a"}, "the handler")
	})
}

// Scopes, forms and transforms of a factory, and errors in them.
func TestFactoryOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		c := newClientset(t, s)
		for _, cm := range []*corev1.ConfigMap{
			configMap("one", "a", map[string]string{"x": "1"}), configMap("one", "b", nil),
			configMap("two", "c", map[string]string{"x": "1"}),
		} {
			cm.Data = map[string]string{"much": "text"}
			must(t, c.Create(t.Context(), cm))
		}
		withX := func(o *metav1.ListOptions) { o.LabelSelector = "x" }
		transform := func(obj any) (any, error) {
			cm := obj.(*corev1.ConfigMap)
			if cm.Name == "b" {
				return nil, errors.New("the object cannot be transformed")
			}
			cm.Data = nil
			return cm, nil
		}
		for _, tt := range []struct {
			name string
			opts []clientset.Option
			want string
			data int // objects with data
		}{
			{"everything", nil, "one/a one/b two/c", 3},
			{"a namespace", []clientset.Option{clientset.WithNamespace("one")}, "one/a one/b", 2},
			{"all namespaces", []clientset.Option{clientset.WithNamespace(metav1.NamespaceAll)}, "one/a one/b two/c",
				3},
			{"a selector", []clientset.Option{clientset.WithTweakListOptions(withX)}, "one/a two/c", 2},
			{"both", []clientset.Option{clientset.WithTweakListOptions(withX), clientset.WithNamespace("two")}, "two/c",
				1},
			{"a transform", []clientset.Option{clientset.WithTransform(transform)}, "one/a one/b two/c", 1},
			{"compact", []clientset.Option{clientset.WithForm(informer.Compact)}, "one/a one/b two/c", 3},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			f := clientset.NewFactory(c, 0, tt.opts...)
			lister := clientset.NewLister[*corev1.ConfigMap](f.InformerFor(&corev1.ConfigMap{}), resource)
			f.StartWithContext(ctx)
			must(t, f.WaitForCacheSyncWithContext(ctx))
			all, err := lister.List(nil)
			must(t, err)
			data := 0
			for _, cm := range all {
				data += len(cm.Data)
			}
			if names(all) != tt.want || data != tt.data {
				t.Errorf("%s: got %q, %d with data", tt.name, names(all), data)
			}
			cancel()
			f.Shutdown()
		}

		wrong := clientset.NewFactory(c, 0, clientset.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector, o.FieldSelector = "a in", "b"
		}))
		unknown := clientset.NewFactory(c, 0)
		for what, inf := range map[string]*clientset.Informer{
			"a wrong selector": wrong.InformerFor(&corev1.ConfigMap{}),
			"an unknown kind":  unknown.InformerFor(&nameless{}),
		} {
			if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{}); err == nil {
				t.Errorf("%s: a handler was added", what)
			}
			if err := inf.AddIndexers(nil); err == nil {
				t.Errorf("%s: an index was added", what)
			}
			if _, err := inf.ByIndex("x", ""); err == nil || inf.HasSynced() {
				t.Errorf("%s: it can be read", what)
			}
			lister := clientset.NewLister[*nameless](inf, resource)
			if _, err := lister.List(nil); err == nil {
				t.Errorf("%s: it can be listed", what)
			}
			if _, err := lister.Get("a"); err == nil || apierrors.IsNotFound(err) {
				t.Errorf("%s: get: %v", what, err)
			}
		}
		for _, f := range []*clientset.Factory{wrong, unknown} {
			f.Start(t.Context().Done())
			if err := f.WaitForCacheSyncWithContext(t.Context()); err == nil {
				t.Error("it is synced")
			}
			if synced := f.WaitForCacheSync(t.Context().Done()); synced[reflect.TypeFor[*nameless]()] ||
				synced[reflect.TypeFor[*corev1.ConfigMap]()] {
				t.Errorf("synced: %v", synced)
			}
			f.Shutdown()
		}
	})
}

// nameless is a type that no scheme has.
type nameless struct{ corev1.ConfigMap }

// A typed client like the generated ones, with client-go's scheme and codecs.
func TestTypedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		must(t, corev1.AddToScheme(scheme))
		metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
		s := apitest.New()
		cfg := s.REST()
		h, err := rest.HTTPClientFor(cfg)
		must(t, err)
		r, err := clientset.REST(cfg, h, corev1.SchemeGroupVersion, scheme, serializer.NewCodecFactory(scheme))
		must(t, err)
		if r.GetRateLimiter() != nil && r.GetRateLimiter().QPS() > 0 {
			t.Error("the default client has a rate limit")
		}
		maps := gentype.NewClientWithList("configmaps", r, runtime.NewParameterCodec(scheme), "one",
			func() *corev1.ConfigMap {
				return &corev1.ConfigMap{}
			}, func() *corev1.ConfigMapList { return &corev1.ConfigMapList{} })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		created, err := maps.Create(ctx, configMap("one", "a", nil), metav1.CreateOptions{})
		must(t, err)
		w, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: created.ResourceVersion})
		must(t, err)
		created.Data = map[string]string{"k": "v"}
		_, err = maps.Update(ctx, created, metav1.UpdateOptions{})
		must(t, err)
		e := <-w.ResultChan()
		assert.Equalf(t, e.Object.(*corev1.ConfigMap).Data["k"], "v", "watched %v", e)
		w.Stop()
		list, err := maps.List(ctx, metav1.ListOptions{})
		must(t, err)
		if len(list.Items) != 1 || list.Items[0].Data["k"] != "v" {
			t.Errorf("listed %v", list.Items)
		}
		must(t, maps.Delete(ctx, "a", metav1.DeleteOptions{}))
		if _, err := maps.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("got %v", err)
		}
		cancel()
		time.Sleep(time.Second)
	})
	limited := clientset.Defaulted(&rest.Config{QPS: 5, UserAgent: "mine"})
	if limited.QPS != 5 || limited.UserAgent != "mine" || clientset.Defaulted(&rest.Config{}).UserAgent == "" {
		t.Errorf("got %+v", limited)
	}
}
