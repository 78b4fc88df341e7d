package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/adapter/cluster"
	"kelson.dev/operator/internal/apitest"
)

var must = require.NoError

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for kind := range scheme.Scheme.KnownTypes(corev1.SchemeGroupVersion) {
		scope := meta.RESTScopeNamespace
		if kind == "Node" {
			scope = meta.RESTScopeRoot
		}
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), scope)
	}
	return m
}

// start returns a running cache of a server with ConfigMaps and Pods, and a client that reads from
// it.
func start(t *testing.T, s *apitest.Server, o cache.Options) (*cluster.Cache, crclient.Client) {
	t.Helper()
	o.Mapper = mapper()
	return startWith(t, s.REST(), o)
}

// startWith is start for a server with a configuration.
func startWith(t *testing.T, config *rest.Config, o cache.Options) (*cluster.Cache, crclient.Client) {
	t.Helper()
	c, err := cluster.NewCache(config, o, cluster.Config{})
	must(t, err)
	client, err := cluster.NewClient(config, crclient.Options{Cache: &crclient.CacheOptions{Reader: c,
		Unstructured: true}}, nil)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() { cancel(); must(t, <-ended) })
	synctest.Wait() // wait until it is started
	return c, client
}

func newServer() *apitest.Server { return apitest.New() }

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		Labels: map[string]string{"name": name}}}
}

func count(t *testing.T, r crclient.Reader, opts ...crclient.ListOption) int {
	t.Helper()
	var list corev1.ConfigMapList
	must(t, r.List(t.Context(), &list, opts...))
	return len(list.Items)
}

// Reads see the client's writes although the watch has not delivered them, in caches with one leaf
// and with several.
func TestReadsOwnWrites(t *testing.T) {
	for name, o := range map[string]cache.Options{
		"all":        {},
		"namespaces": {DefaultNamespaces: map[string]cache.Config{"default": {}, "other": {}}},
		"leaves": {DefaultNamespaces: map[string]cache.Config{"default": {LabelSelector: labels.Everything()},
			"other": {}}},
		"by object": {ByObject: map[crclient.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: labels.Everything()}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, c := start(t, newServer(), o)
				require.Equalf(t, count(t, c), 0, "objects at first")
				for n := range 10 { // without pauses, so that the watch lags behind
					must(t, c.Create(t.Context(), configMap("default", fmt.Sprint("a", n))))
					must(t, c.Create(t.Context(), configMap("other", fmt.Sprint("b", n))))
					if all, one := count(t, c), count(t, c, crclient.InNamespace("other")); all != 2*n+2 || one != n+1 {
						t.Fatalf("%d and %d objects after %d writes", all, one, 2*n+2)
					}
				}
				must(t, c.Delete(t.Context(), configMap("default", "a0")))
				if err := c.Get(t.Context(), crclient.ObjectKey{Namespace: "default", Name: "a0"},
					&corev1.ConfigMap{}); !apierrors.IsNotFound(err) || err.Error() != `ConfigMap "a0" not found` {
					t.Errorf("get after delete: %v", err)
				}
			})
		})
	}
}

// Settings of namespaces and kinds apply to their objects only.
func TestOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		named := func(name string) labels.Selector { return labels.SelectorFromSet(labels.Set{"name": name}) }
		strip := func(obj any) (any, error) {
			obj.(metav1.Object).SetAnnotations(map[string]string{"stripped": "yes"})
			return obj, nil
		}
		c, client := start(t, s, cache.Options{ByObject: map[crclient.Object]cache.ByObject{&corev1.ConfigMap{}: {
			Transform: strip,
			Namespaces: map[string]cache.Config{
				"default": {LabelSelector: named("a")}, "other": {LabelSelector: named("b")},
			},
		}}})
		live := cluster.Live(c, nil)
		for _, namespace := range []string{"default", "other"} {
			for _, name := range []string{"a", "b"} {
				must(t, client.Create(t.Context(), configMap(namespace, name)))
			}
		}
		if cached, all := count(t, client), count(t, live); cached != 2 || all != 4 {
			t.Errorf("%d of %d objects are cached, want 2 of 4", cached, all)
		}
		cm := &corev1.ConfigMap{}
		must(t, client.Get(t.Context(), crclient.ObjectKey{Namespace: "other", Name: "b"}, cm))
		assert.Equalf(t, cm.Annotations["stripped"], "yes", "the transform was not applied")
		if err := client.Get(t.Context(), crclient.ObjectKey{Namespace: "default", Name: "b"},
			cm); !apierrors.IsNotFound(err) {
			t.Errorf("an object outside of the selector: %v", err)
		}
	})
}

// A field selector for a namespace is a filter, although the informer watches only that namespace.
func TestNamespaceByFieldSelector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := start(t, newServer(), cache.Options{ByObject: map[crclient.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Field: fields.OneTermEqualSelector("metadata.namespace", "a")},
		}})
		for _, namespace := range []string{"a", "b"} {
			must(t, client.Create(t.Context(), configMap(namespace, "x")))
		}
		if all, a, b := count(t, client), count(t, client, crclient.InNamespace("a")),
			count(t, client, crclient.InNamespace("b")); all != 1 || a != 1 || b != 0 {
			t.Errorf("%d objects, %d in namespace a, %d in namespace b; want 1, 1, 0", all, a, b)
		}
		must(t, client.Get(t.Context(), crclient.ObjectKey{Namespace: "a", Name: "x"}, &corev1.ConfigMap{}))
		if err := client.Get(t.Context(), crclient.ObjectKey{Namespace: "b", Name: "x"},
			&corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
			t.Errorf("an object in another namespace: %v", err)
		}
	})
}

// The body of a patched subresource has the response, also for users who may only patch it.
func TestPatchOfSubresourceWithBody(t *testing.T) {
	config := &rest.Config{Host: "http://test", Transport: transport(func(r *http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: http.StatusForbidden, Request: r,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody}
		if r.Method == http.MethodPatch && r.URL.Path == "/api/v1/namespaces/default/pods/a/scale" {
			text := `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"a","resourceVersion":"7"},"spec":{"replicas":3}}`
			resp.StatusCode, resp.Body = http.StatusOK, io.NopCloser(strings.NewReader(text))
		}
		return resp, nil
	})}
	c, err := cluster.NewClient(config, crclient.Options{Mapper: mapper()}, nil)
	must(t, err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	merge := crclient.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3}}`))
	for name, opts := range map[string][]crclient.SubResourcePatchOption{"patch": nil,
		"dry run": {crclient.DryRunAll}} {
		scale := &autoscalingv1.Scale{}
		must(t, c.SubResource("scale").Patch(t.Context(), pod, merge,
			append(opts, crclient.WithSubResourceBody(scale))...))
		if scale.Spec.Replicas != 3 || scale.ResourceVersion != "7" || pod.ResourceVersion != "" {
			t.Errorf("%s: the body is %+v, the object %+v", name, scale, pod)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// recorded counts the calls of a handler.
type recorded struct {
	mu                     sync.Mutex
	adds, updates, deletes int
}

func (r *recorded) OnAdd(any, bool)   { r.mu.Lock(); defer r.mu.Unlock(); r.adds++ }
func (r *recorded) OnUpdate(_, _ any) { r.mu.Lock(); defer r.mu.Unlock(); r.updates++ }
func (r *recorded) OnDelete(any)      { r.mu.Lock(); defer r.mu.Unlock(); r.deletes++ }

func (r *recorded) want(t *testing.T, when string, adds, updates, deletes int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.adds != adds || r.updates != updates || r.deletes != deletes {
		t.Errorf("%s: %d adds, %d updates, %d deletes, want %d, %d, %d", when, r.adds, r.updates, r.deletes, adds,
			updates, deletes)
	}
}

// An informer calls handlers, including those with their own resync period, until it is removed.
// Then GetInformer creates a new one.
func TestInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := start(t, newServer(), cache.Options{})
		i, err := c.GetInformer(t.Context(), &corev1.ConfigMap{})
		must(t, err)
		plain, periodic := &recorded{}, &recorded{}
		registration, err := i.AddEventHandler(plain)
		must(t, err)
		_, err = i.AddEventHandlerWithResyncPeriod(periodic, time.Minute)
		must(t, err)
		must(t, client.Create(t.Context(), configMap("default", "a")))
		time.Sleep(time.Second)
		if !registration.HasSynced() || !i.HasSynced() {
			t.Error("not synced")
		}
		time.Sleep(2 * time.Minute)
		plain.want(t, "plain", 1, 0, 0)
		periodic.want(t, "with a period", 1, 2, 0)
		store := i.(toolscache.SharedIndexInformer).GetStore()
		if _, ok, err := store.GetByKey("default/a"); !ok || err != nil || len(store.List()) != 1 ||
			store.LastStoreSyncResourceVersion() == "" {
			t.Errorf("store: %v, %v, %d objects at version %q", ok, err, len(store.List()),
				store.LastStoreSyncResourceVersion())
		}
		must(t, i.RemoveEventHandler(registration))
		must(t, client.Create(t.Context(), configMap("default", "b")))
		time.Sleep(time.Second)
		plain.want(t, "removed", 1, 0, 0)
		must(t, c.RemoveInformer(t.Context(), &corev1.ConfigMap{}))
		must(t, client.Delete(t.Context(), configMap("default", "a")))
		time.Sleep(5 * time.Minute)
		periodic.want(t, "removed with its informer", 2, 2, 0)
		if !i.IsStopped() {
			t.Error("a removed informer is not stopped")
		}
		if _, err := i.AddEventHandler(plain); err == nil {
			t.Error("a removed informer takes handlers")
		}
		if n := count(t, c); n != 1 {
			t.Errorf("a new informer has %d objects, want 1", n)
		}
	})
}

// Indexes select objects in lists, and in client-go's interface.
func TestIndexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := start(t, newServer(), cache.Options{})
		must(t, c.IndexField(t.Context(), &corev1.ConfigMap{}, "initial", func(o crclient.Object) []string {
			return []string{o.GetName()[:1]}
		}))
		i, err := c.GetInformer(t.Context(), &corev1.ConfigMap{})
		must(t, err)
		must(t, i.AddIndexers(toolscache.Indexers{"length": func(obj any) ([]string, error) {
			return []string{fmt.Sprint(len(obj.(metav1.Object).GetName()))}, nil
		}}))
		for _, name := range []string{"apple", "avocado", "berry"} {
			must(t, client.Create(t.Context(), configMap("default", name)))
		}
		n := count(t, client, crclient.MatchingFields{"initial": "a"})
		assert.Equalf(t, n, 2, "objects with the initial a")
		indexer := i.(toolscache.SharedIndexInformer).GetIndexer()
		fives, err := indexer.IndexKeys("length", "5")
		if err != nil || len(fives) != 2 {
			t.Errorf("by length: %v, %v", fives, err)
		}
		if err := i.AddIndexers(toolscache.Indexers{"length": nil}); err == nil {
			t.Error("an index was added twice")
		}
		if err := indexer.Add(configMap("default", "x")); err == nil {
			t.Error("the store was written to")
		}
	})
}

// A read before Start, and of a kind that must be cached but is not, is controller-runtime's error.
func TestReadErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := cluster.NewCache(newServer().REST(), cache.Options{Mapper: mapper()}, cluster.Config{})
		must(t, err)
		var notStarted *cache.ErrCacheNotStarted
		if err := c.List(t.Context(), &corev1.PodList{}); !errors.As(err, &notStarted) {
			t.Errorf("before Start: %v", err)
		}
		known, _ := start(t, newServer(), cache.Options{ReaderFailOnMissingInformer: true})
		var notCached *cache.ErrResourceNotCached
		if err := known.List(t.Context(), &corev1.PodList{}); !errors.As(err, &notCached) {
			t.Errorf("a kind without informer: %v", err)
		}
	})
}

// Errors of watches go to the handler of the options.
func TestWatchErrorHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.SetFaults(apitest.Faults{Fail: func(verb, path string) (int, metav1.StatusReason) {
			return http.StatusForbidden, metav1.StatusReasonForbidden
		}})
		var mu sync.Mutex
		var seen []error
		var description string
		c, _ := start(t, s, cache.Options{DefaultWatchErrorHandler: func(_ context.Context, r *toolscache.Reflector,
			err error) {
			mu.Lock()
			defer mu.Unlock()
			seen, description = append(seen, err), r.TypeDescription()
		}})
		_, err := c.GetInformer(t.Context(), &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
		must(t, err)
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(seen) == 0 || !apierrors.IsForbidden(seen[0]) || description != "/v1, Kind=ConfigMap" {
			t.Errorf("the handler got %v for %s", seen, description)
		}
	})
}

// An apply without a field owner fails as with controller-runtime's client, where the server
// rejects it.
func TestApplyNeedsAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, newServer(), cache.Options{})
		must(t, c.Create(t.Context(), configMap("default", "a")))
		ctx, config := t.Context(), corev1apply.ConfigMap("a", "default").WithData(map[string]string{"a": "b"})
		owner := crclient.FieldOwner("me")
		patch := func(opts ...crclient.PatchOption) error {
			obj := configMap("default", "a")
			obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			// programs still use it
			return c.Patch(ctx, obj, crclient.Apply, append(opts, crclient.ForceOwnership)...) //nolint:staticcheck
		}
		for name, err := range map[string]error{
			"Apply":        c.Apply(ctx, config),
			"Patch":        patch(),
			"Status.Apply": c.Status().Apply(ctx, config),
			"Status.Patch": c.Status().Patch(ctx, configMap("default", "a"), crclient.Apply), //nolint:staticcheck
		} {
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "fieldManager: Required value") {
				t.Errorf("%s: %v", name, err)
			}
		}
		must(t, c.Apply(ctx, config, owner, crclient.ForceOwnership))
		must(t, patch(owner))
		must(t, crclient.WithFieldOwner(c, "me").Apply(ctx, config, crclient.ForceOwnership))
	})
}
