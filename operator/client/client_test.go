package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
)

var (
	widget  = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	widgets = apitest.Kind{GroupVersionKind: widget, Plural: "widgets"}
	podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	web     = client.Key{Namespace: "default", Name: "web"}
)

func newClient(t *testing.T, change ...func(*client.Config)) (*apitest.Server, client.Client) {
	t.Helper()
	server := apitest.New(widgets)
	cfg := client.Config{REST: server.REST(), FieldOwner: "tests"}
	for _, c := range change {
		c(&cfg)
	}
	c, err := client.New(cfg)
	must(t, err)
	return server, c
}

var must = require.NoError

func pod(name string, labels ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	for n := 0; n+1 < len(labels); n += 2 {
		metav1.SetMetaDataLabel(&p.ObjectMeta, labels[n], labels[n+1])
	}
	return p
}

func dynamic(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	u.SetNamespace("default")
	u.SetName(name)
	return u
}

// Each verb works with typed, dynamic and custom objects and with metadata alone. Failed reads and
// deletions leave their argument unchanged.
func TestVerbsInEveryForm(t *testing.T) {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(podKind)
	for name, form := range map[string]struct {
		make func() client.Object // as created
		read client.Object        // as read
	}{
		"typed":    {func() client.Object { return pod("web") }, &corev1.Pod{}},
		"dynamic":  {func() client.Object { return dynamic(podKind, "web") }, dynamic(podKind, "")},
		"custom":   {func() client.Object { return dynamic(widget, "web") }, dynamic(widget, "")},
		"metadata": {func() client.Object { return pod("web") }, metadata},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := newClient(t)
			ctx := t.Context()
			obj := form.make()
			must(t, c.Create(ctx, obj))
			if obj.GetUID() == "" || obj.GetResourceVersion() == "" {
				t.Errorf("the response was not decoded into the object: %v", obj)
			}
			read := form.read.DeepCopyObject().(client.Object)
			must(t, c.Get(ctx, web, read))
			assert.Equalf(t, read.GetUID(), obj.GetUID(), "uid")
			if got, want := read.GetObjectKind().GroupVersionKind(),
				obj.GetObjectKind().GroupVersionKind(); got != want || got.Kind == "" {
				t.Errorf("kind %v, want %v", got, want)
			}
			items := client.NewItems(form.read)
			must(t, c.List(ctx, items, client.InNamespace("default")))
			if len(items.Items) != 1 || !reflect.DeepEqual(items.Items[0], read) {
				t.Errorf("listed %v, want %v", items.Items, read)
			}

			must(t, c.Patch(ctx, read, client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"labels":{"a":"b"}}}`))))
			if read.GetLabels()["a"] != "b" || read.GetResourceVersion() == obj.GetResourceVersion() {
				t.Errorf("the response to the patch was not decoded into the object: %v", read)
			}
			obj.SetLabels(map[string]string{"c": "d"})
			if err := c.Update(ctx, obj); !apierrors.IsConflict(err) {
				t.Errorf("update of an old version: %v, want a conflict", err)
			}
			before := read.DeepCopyObject()
			must(t, c.Delete(ctx, read))
			if !reflect.DeepEqual(before, read) {
				t.Errorf("delete changed its argument")
			}
			if err := c.Get(ctx, web, read); !apierrors.IsNotFound(err) {
				t.Errorf("get of a deleted object: %v, want not found", err)
			}
			if !reflect.DeepEqual(before, read) {
				t.Errorf("a failed get changed its argument")
			}
		})
	}
}

// Get clears the fields that the response lacks.
func TestGetReplacesTheWholeObject(t *testing.T) {
	_, c := newClient(t)
	must(t, c.Create(t.Context(), pod("web")))
	p := pod("other", "stale", "yes")
	p.Spec.NodeName = "stale"
	must(t, c.Get(t.Context(), web, p))
	if p.Labels != nil || p.Spec.NodeName != "" {
		t.Errorf("fields that the response lacks remain: %v", p)
	}
}

// The generic calls Get, List and Each return objects with their kind, by label, field and page.
func TestGenericCalls(t *testing.T) {
	_, c := newClient(t)
	ctx := t.Context()
	for n := range 7 {
		must(t, c.Create(ctx, pod(fmt.Sprintf("p%d", n), "parity", []string{"even", "odd"}[n%2])))
		must(t, c.Create(ctx, dynamic(widget, fmt.Sprintf("w%d", n))))
	}
	p, err := client.Get[corev1.Pod](ctx, c, client.Key{Namespace: "default", Name: "p3"})
	must(t, err)
	if p.Name != "p3" || p.Kind != "Pod" {
		t.Errorf("got %v", p)
	}
	odd, err := client.List[corev1.Pod](ctx, c, client.InNamespace("default"), client.MatchingLabels{"parity": "odd"})
	must(t, err)
	if len(odd) != 3 || odd[0].Kind != "Pod" {
		t.Errorf("odd pods: %v", odd)
	}
	if one, err := client.List[corev1.Pod](ctx, c, client.MatchingFields{"metadata.name": "p2"}); err != nil ||
		len(one) != 1 {
		t.Errorf("by field: %v, %v", one, err)
	}
	var names []string
	for w, err := range client.Each[unstructured.Unstructured](ctx, c, client.OfKind(widget), client.Limit(3)) {
		must(t, err)
		names = append(names, w.GetName())
		assert.Equalf(t, w.GetKind(), "Widget", "kind")
	}
	assert.Equalf(t, strings.Join(names, " "), "w0 w1 w2 w3 w4 w5 w6", "each")
	for range client.Each[corev1.Pod](ctx, c, client.Limit(2)) {
		break // breaking out of the loop is allowed
	}
	if none, err := client.List[corev1.Pod](ctx, c, client.InNamespace("empty")); err != nil || len(none) != 0 {
		t.Errorf("empty list: %v, %v", none, err)
	}
}

// Typed lists, dynamic lists and lists of metadata have items with their kind.
func TestTypedLists(t *testing.T) {
	_, c := newClient(t)
	must(t, c.Create(t.Context(), pod("web")))
	must(t, c.Create(t.Context(), dynamic(widget, "w")))

	var pods corev1.PodList
	must(t, c.List(t.Context(), &pods))
	if len(pods.Items) != 1 || pods.Items[0].Kind != "Pod" || pods.Kind != "PodList" || pods.ResourceVersion == "" {
		t.Errorf("typed: %+v", pods)
	}
	var dyn unstructured.UnstructuredList
	dyn.SetGroupVersionKind(widget.GroupVersion().WithKind("WidgetList"))
	must(t, c.List(t.Context(), &dyn))
	if len(dyn.Items) != 1 || dyn.Items[0].GetKind() != "Widget" {
		t.Errorf("dynamic: %+v", dyn)
	}
	var partial metav1.PartialObjectMetadataList
	partial.SetGroupVersionKind(podKind.GroupVersion().WithKind("PodList"))
	must(t, c.List(t.Context(), &partial))
	if len(partial.Items) != 1 || partial.Items[0].Kind != "Pod" || partial.Items[0].Name != "web" {
		t.Errorf("metadata: %+v", partial)
	}
}

// Events delivers the initial events, a bookmark and the later events until the context ends.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newClient(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		must(t, c.Create(ctx, pod("a")))
		var seen []string
		go func() {
			for event, err := range client.Events[corev1.Pod](ctx, c, client.ListOptions{InitialEvents: true}) {
				if err != nil {
					seen = append(seen, err.Error())
					return
				}
				seen = append(seen, fmt.Sprintf("%s %s %s", event.Type, event.Object.Name, event.Object.Kind))
			}
		}()
		synctest.Wait()
		b := pod("b")
		must(t, c.Create(ctx, b))
		must(t, c.Delete(ctx, b))
		synctest.Wait()
		cancel()
		synctest.Wait()
		want := "ADDED a Pod, BOOKMARK  Pod, ADDED b Pod, DELETED b Pod, context canceled"
		assert.Equal(t, strings.Join(seen, ", "), want)
	})
}

// A watch ends, without an event, when it is stopped, when the server ends it and after its
// timeout.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, c := newClient(t)
		open := func() watch.Interface {
			w, err := c.Watch(t.Context(), &corev1.PodList{})
			must(t, err)
			synctest.Wait()
			return w
		}
		stopped := open()
		stopped.Stop()
		if _, ok := <-stopped.ResultChan(); ok {
			t.Error("an event after Stop")
		}
		cut := open()
		server.CutWatches()
		if event, ok := <-cut.ResultChan(); ok {
			t.Errorf("the server ended the watch: %v", event)
		}
		timed, err := c.Watch(t.Context(), &corev1.PodList{}, client.ListOptions{Timeout: 40 * time.Second})
		must(t, err)
		begin := time.Now()
		if event, ok := <-timed.ResultChan(); ok || time.Since(begin) != 40*time.Second {
			t.Errorf("ended after %v with %v", time.Since(begin), event)
		}
		synctest.Wait()
		assert.Equalf(t, server.Watches(), 0, "watches are left open")
	})
}

// A response that can't be decoded, and an error from the server, is an error event that ends the
// watch.
func TestWatchOfGarbageIsAnErrorEvent(t *testing.T) {
	for name, text := range map[string]string{
		"no json":      "what?\n",
		"no such type": `{"type":"CHANGED","object":{}}`,
		"wrong object": `{"type":"ADDED","object":{"metadata":[]}}`,
		"an error":     `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","status":"Failure"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			server, c := newClient(t)
			server.SetFaults(apitest.Faults{Intercept: func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("watch") == "" {
					return false
				}
				_, _ = w.Write([]byte(text))
				return true
			}})
			w, err := c.Watch(t.Context(), &corev1.PodList{})
			must(t, err)
			event, ok := <-w.ResultChan()
			if !ok || event.Type != watch.Error || apierrors.FromObject(event.Object) == nil {
				t.Errorf("got %v, %v", event, ok)
			}
			if _, ok := <-w.ResultChan(); ok {
				t.Error("the watch continues after an error")
			}
		})
	}
}

// finicky is an object whose decoding fails with the error of a connection that ended.
type finicky struct{ metav1.PartialObjectMetadata }

func (f *finicky) DeepCopyObject() runtime.Object {
	return &finicky{*f.PartialObjectMetadata.DeepCopy()}
}
func (f *finicky) UnmarshalJSON([]byte) error { return io.ErrUnexpectedEOF }

// An object that can't be decoded is not mistaken for the end of the watch.
func TestWatchOfObjectThatIsCutOff(t *testing.T) {
	server, c := newClient(t, func(cfg *client.Config) {
		cfg.Scheme = runtime.NewScheme()
		cfg.Scheme.AddKnownTypeWithName(widget, &finicky{})
	})
	server.SetFaults(apitest.Faults{Intercept: func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" {
			return false
		}
		_, _ = w.Write([]byte(`{"type":"ADDED","object":{"metadata":{}}}` + "\n"))
		return true
	}})
	w, err := c.Watch(t.Context(), client.NewItems(&finicky{}))
	must(t, err)
	if event, ok := <-w.ResultChan(); !ok || event.Type != watch.Error ||
		!strings.Contains(apierrors.FromObject(event.Object).Error(), "unexpected EOF") {
		t.Errorf("got %v, %v", event, ok)
	}
}

// Requests are retried as the header Retry-After of a 429 or 503 says, up to a limit. Without the
// header, and after other failures, they are not.
func TestRetryAfter(t *testing.T) {
	for name, tt := range map[string]struct {
		code     int
		after    string
		failures int // number of requests that fail
		want     int // 0: the last request succeeds
		took     time.Duration
	}{
		"busy":            {429, "3", 2, 0, 6 * time.Second},
		"unavailable":     {503, "1", 1, 0, time.Second},
		"never":           {429, "1", 1000, 429, 9 * time.Second},
		"a long wait":     {503, "3600", 1, 0, 30 * time.Second},
		"without a hint":  {429, "", 1, 429, 0},
		"another failure": {500, "5", 1, 500, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, c := newClient(t)
				must(t, c.Create(t.Context(), pod("web")))
				failures := tt.failures
				server.SetFaults(apitest.Faults{Intercept: func(w http.ResponseWriter, r *http.Request) bool {
					if failures--; failures < 0 {
						return false
					}
					if tt.after != "" {
						w.Header().Set("Retry-After", tt.after)
					}
					http.Error(w, "not now", tt.code)
					return true
				}})
				begin := time.Now()
				_, err := client.Get[corev1.Pod](t.Context(), c, web)
				took := time.Since(begin)
				assert.Equalf(t, took, tt.took, "took")
				var status apierrors.APIStatus
				switch {
				case tt.want == 0 && err != nil:
					t.Error(err)
				case tt.want != 0 && (!errors.As(err, &status) || int(status.Status().Code) != tt.want):
					t.Errorf("got %v, want %d", err, tt.want)
				}
			})
		})
	}
}

// If the server asks to try later, watches and lists that are read ahead return that error at once,
// because their caller waits and reports it.
func TestRetryAfterIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, c := newClient(t)
		for n := range 3 {
			must(t, c.Create(t.Context(), pod(fmt.Sprint("p", n))))
		}
		var bodies []string
		sent := 0
		server.SetFaults(apitest.Faults{Intercept: func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/pods") {
				return false
			}
			if sent++; len(bodies) == 0 {
				return false
			}
			body := bodies[0]
			if bodies = bodies[1:]; body == "" {
				return false
			}
			w.Header().Set("Retry-After", "3")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(body))
			return true
		}})
		status := `{"kind":"Status","apiVersion":"v1","status":"Failure","code":429,"reason":"TooManyRequests","message":"not now"}`
		begin := time.Now()
		check := func(what string, err error, want int) {
			t.Helper()
			if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds != 3 || sent != want ||
				time.Since(begin) > 0 {
				t.Errorf("%s: got %v, wait %d, after %d requests and %v", what, err, seconds, sent, time.Since(begin))
			}
			synctest.Wait()
			sent, bodies = 0, nil
		}
		o := client.ListOptions{Limit: 1, Ahead: &client.Ahead{}}
		items := client.NewItems(&corev1.Pod{})
		for _, body := range []string{"not now", status} {
			bodies = []string{body}
			_, err := c.Watch(t.Context(), items)
			check("watch", err, 1)
			bodies = []string{body}
			check("first page", c.List(t.Context(), items, o), 1)
		}
		bodies = []string{"", status}
		must(t, c.List(t.Context(), items, o))
		synctest.Wait()
		o.Continue = items.Continue
		check("a page that was read ahead", c.List(t.Context(), items, o), 2)
		if must(t, c.List(t.Context(), items, o)); items.Items[0].GetName() != "p1" {
			t.Errorf("the page that is read again has %v", items.Items)
		}
		for items.Continue != "" {
			o.Continue = items.Continue
			must(t, c.List(t.Context(), items, o))
		}
	})
}

// A retry does not wait longer than its context.
func TestRetryEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, c := newClient(t)
		server.SetFaults(apitest.Faults{Intercept: func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Retry-After", "20")
			http.Error(w, "not now", http.StatusTooManyRequests)
			return true
		}})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := client.Get[corev1.Pod](ctx, c, web)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// The server's warnings reach the configured function, and malformed ones are ignored.
func TestWarnings(t *testing.T) {
	var got []string
	server, c := newClient(t, func(cfg *client.Config) {
		cfg.Warnings = func(_ context.Context, warning string) { got = append(got, warning) }
	})
	server.SetFaults(apitest.Faults{Intercept: func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/") {
			w.Header().Add("Warning", `299 - "pods are \"old\""`)
			w.Header().Add("Warning", `299 - "and more"`)
			w.Header().Add("Warning", `garbage`)
		}
		return false
	}})
	must(t, c.Create(t.Context(), pod("web")))
	assert.Deep(t, got, []string{`pods are "old"`, "and more"})
}

// Requests without a kind, name or namespace that they need fail with a typed error.
func TestErrorsBeforeTheServer(t *testing.T) {
	_, c := newClient(t)
	ctx := t.Context()
	type unknown struct{ corev1.Pod }
	for name, tt := range map[string]struct {
		err  error
		want error
	}{
		"kind not in the scheme": {c.Get(ctx, web, &unknown{}), client.ErrNoKind},
		"dynamic without kind":   {c.Get(ctx, web, &unstructured.Unstructured{}), client.ErrNoKind},
		"no name":                {c.Get(ctx, client.Key{Namespace: "default"}, &corev1.Pod{}), client.ErrNoName},
		"no namespace":           {c.Get(ctx, client.Key{Name: "web"}, &corev1.Pod{}), client.ErrNoNamespace},
		"delete all everywhere":  {c.DeleteAllOf(ctx, &corev1.Pod{}), client.ErrNoNamespace},
	} {
		assert.ErrorIsf(t, tt.err, tt.want, "%s", name)
	}
	err := c.Get(ctx, web, dynamic(schema.GroupVersionKind{Group: "none", Version: "v1", Kind: "None"}, ""))
	if !meta.IsNoMatchError(err) {
		t.Errorf("kind that is not served: %v", err)
	}
	if _, err := client.List[unstructured.Unstructured](ctx, c); !errors.Is(err, client.ErrNoKind) ||
		!strings.Contains(err.Error(), "client.OfKind") {
		t.Errorf("generic call without a kind: %v", err)
	}
	assert.ErrorContainsf(t, c.Update(ctx, metadataOnly("web")), "use Patch", "update of metadata alone")
}

func metadataOnly(name string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	m.SetGroupVersionKind(podKind)
	return m
}

// A kind that is served later is found without a new client.
func TestKindsAddedLater(t *testing.T) {
	server, c := newClient(t)
	gadget := schema.GroupVersionKind{Group: "late.example.com", Version: "v1", Kind: "Gadget"}
	if err := c.Create(t.Context(), dynamic(gadget, "g")); !meta.IsNoMatchError(err) {
		t.Fatalf("got %v", err)
	}
	server.AddKind(apitest.Kind{GroupVersionKind: gadget, Plural: "gadgets"})
	must(t, c.Create(t.Context(), dynamic(gadget, "g")))
	if gvr, err := c.Mapper().ResourceFor(schema.GroupVersionResource{Resource: "gadget"}); err != nil ||
		gvr.Resource != "gadgets" {
		t.Errorf("ResourceFor: %v, %v", gvr, err)
	}
	if kind, err := c.Mapper().KindFor(schema.GroupVersionResource{Resource: "widgets"}); err != nil || kind != widget {
		t.Errorf("KindFor: %v, %v", kind, err)
	}
	if m, err := c.Mapper().RESTMapping(podKind.GroupKind()); err != nil || m.Resource.Resource != "pods" {
		t.Errorf("RESTMapping without version: %v, %v", m, err)
	}
}

// Delete returns the last state or the status on request, and checks preconditions. DeleteAllOf
// deletes only what the selector matches.
func TestDeleteAnswers(t *testing.T) {
	_, c := newClient(t)
	ctx := t.Context()
	held := pod("held")
	held.Finalizers = []string{"example.com/hold"}
	must(t, c.Create(ctx, held))
	var last corev1.Pod
	must(t, c.Delete(ctx, held, client.Answer(&last)))
	if last.DeletionTimestamp == nil {
		t.Errorf("answer: %v", last)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cm"}}
	must(t, c.Create(ctx, cm))
	var status metav1.Status
	must(t, c.Delete(ctx, cm, client.DeleteOptions{Status: &status}))
	if status.Details == nil || status.Details.UID != cm.UID {
		t.Errorf("status: %v", status)
	}
	web := pod("web")
	must(t, c.Create(ctx, web))
	if err := c.Delete(ctx, web, client.Preconditions{UID: "another"}); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
	must(t, c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("default"),
		client.MatchingFields{"metadata.name": "web"}))
	if left, err := client.List[corev1.Pod](ctx, c); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Options become the query parameters and content types of the requests.
func TestQueries(t *testing.T) {
	var got []string
	server, c := newClient(t)
	server.SetFaults(apitest.Faults{Intercept: func(w http.ResponseWriter, r *http.Request) bool {
		if len(strings.Split(r.URL.Path, "/")) > 3 {
			got = append(got, r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery+" "+r.Header.Get("Content-Type"))
		}
		return false
	}})
	ctx := t.Context()
	p := pod("web")
	must(t, c.Create(ctx, p, client.FieldValidation("Strict"), client.FieldOwner("me")))
	must(t, c.Apply(ctx, p.DeepCopy(), client.DryRunAll))
	must(t, c.Apply(ctx, p.DeepCopy(), client.Unforced))
	must(t, c.Subresource("status").Update(ctx, p, nil))
	must(t, c.Subresource("binding").Create(ctx, p, &corev1.Binding{}))
	_, err := client.List[corev1.Pod](ctx, c, client.MatchingLabels{"a": "b"}, client.MatchingLabels{"c": "d"},
		client.Limit(5), client.InNamespace("x"), client.Live)
	must(t, err)
	want := []string{
		"POST /api/v1/namespaces/default/pods?fieldManager=me&fieldValidation=Strict application/json",
		"PATCH /api/v1/namespaces/default/pods/web?dryRun=All&fieldManager=tests&fieldValidation=Ignore&force=true application/apply-patch+yaml",
		"PATCH /api/v1/namespaces/default/pods/web?fieldManager=tests&fieldValidation=Ignore application/apply-patch+yaml",
		"PUT /api/v1/namespaces/default/pods/web/status?fieldManager=tests application/json",
		"POST /api/v1/namespaces/default/pods/web/binding?fieldManager=tests application/json",
		"GET /api/v1/namespaces/x/pods?labelSelector=a%3Db%2Cc%3Dd&limit=5 ",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
