package informer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
)

// fixture has a server, its client, and informers that run until the test ends.
type fixture struct {
	t      *testing.T
	ctx    context.Context
	server *apitest.Server
	direct client.Client
	set    informer.Informers
	client client.Client // reads from the informers
	stop   context.CancelFunc
	log    *buffer
}

func newFixture(t *testing.T, change ...func(*informer.Config)) *fixture {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &fixture{t: t, ctx: ctx, server: apitest.New(), stop: cancel, log: &buffer{}}
	var err error
	w.direct, err = client.New(client.Config{REST: w.server.REST()})
	w.must(err)
	cfg := informer.Config{Client: w.direct, Form: form, Log: w.logger()}
	for _, c := range change {
		c(&cfg)
	}
	w.set, err = informer.New(cfg)
	w.must(err)
	w.client = w.set.Client()
	return w
}

func (w *fixture) logger() *slog.Logger { return slog.New(slog.NewTextHandler(w.log, nil)) }

func (w *fixture) run() {
	done := make(chan error, 1)
	go func() { done <- w.set.Run(w.ctx) }()
	w.t.Cleanup(func() {
		w.stop()
		assert.NoErrorf(w.t, <-done, "run")
		synctest.Wait() // wait for the server
		assert.Equalf(w.t, w.server.Watches(), 0, "watches are left")
	})
}

func (w *fixture) must(err error) {
	w.t.Helper()
	must(w.t, err)
}

func (w *fixture) create(objs ...client.Object) {
	w.t.Helper()
	for _, obj := range objs {
		w.must(w.direct.Create(w.ctx, obj))
	}
}

func (w *fixture) pods() informer.Informer {
	w.t.Helper()
	inf, err := w.set.For(&corev1.Pod{})
	w.must(err)
	return inf
}

func (w *fixture) handle(inf informer.Informer, h informer.Handler) informer.Registration {
	w.t.Helper()
	reg, err := inf.AddHandler(h)
	w.must(err)
	return reg
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// recorder records the calls of a handler.
type recorder struct {
	delay time.Duration
	mu    sync.Mutex
	lines []string
}

func (r *recorder) add(format string, args ...any) {
	time.Sleep(r.delay)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *recorder) OnAdd(obj client.Object, initial bool) {
	if initial {
		r.add("+%s initial", obj.GetName())
		return
	}
	r.add("+%s", obj.GetName())
}
func (r *recorder) OnUpdate(old, obj client.Object) {
	r.add("~%s %s", obj.GetName(), obj.GetLabels()["v"])
}
func (r *recorder) OnDelete(obj client.Object, stale bool) {
	if stale {
		r.add("-%s stale", obj.GetName())
		return
	}
	r.add("-%s", obj.GetName())
}

// take returns the calls since the last take.
func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return strings.Join(lines, ", ")
}

func (w *fixture) expectCalls(r *recorder, want string) {
	w.t.Helper()
	synctest.Wait()
	assert.Equalf(w.t, r.take(), want, "calls")
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func labelled(p *corev1.Pod, v string) *corev1.Pod {
	metav1.SetMetaDataLabel(&p.ObjectMeta, "v", v)
	return p
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Handlers get the existing objects and each change until they are removed, also those that are
// added later. All share one watch.
func TestHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		a, b := pod("a"), pod("b")
		w.create(a)
		inf := w.pods()
		first, second := &recorder{}, &recorder{}
		reg := w.handle(inf, first)
		if isDone(inf.Synced()) || isDone(reg.Synced()) {
			t.Error("synced before it runs")
		}
		w.run()
		w.expectCalls(first, "+a initial")
		if !isDone(inf.Synced()) || !isDone(reg.Synced()) {
			t.Error("not synced")
		}
		w.create(b)
		w.must(w.direct.Update(w.ctx, labelled(b, "2")))
		w.expectCalls(first, "+b, ~b 2")

		late := w.handle(inf, second)
		synctest.Wait()
		if lines := strings.Split(second.take(), ", "); len(lines) != 2 || !slices.Contains(lines, "+a initial") ||
			!slices.Contains(lines, "+b initial") {
			t.Errorf("a late handler got %q", lines)
		}
		if !isDone(late.Synced()) {
			t.Error("late handler is not synced")
		}
		w.must(w.direct.Delete(w.ctx, a))
		w.expectCalls(first, "-a")
		w.expectCalls(second, "-a")

		late.Remove()
		late.Remove() // a second call has no effect
		w.must(w.direct.Delete(w.ctx, b))
		w.expectCalls(first, "-b")
		w.expectCalls(second, "")
		assert.Equalf(t, w.server.Watches(), 1, "watches")
	})
}

// A slow handler does not block other handlers, and gets all events.
func TestSlowHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		inf := w.pods()
		slow, fast := &recorder{delay: time.Minute}, &recorder{}
		slowReg := w.handle(inf, slow)
		w.handle(inf, fast)
		w.run()
		synctest.Wait()
		var want []string
		for n := range 100 {
			w.create(pod(fmt.Sprint(n)))
			want = append(want, fmt.Sprintf("+%d", n))
		}
		w.expectCalls(fast, strings.Join(want, ", "))
		if got := slow.take(); got != "" || len(inf.List("")) != 100 {
			t.Errorf("the slow handler got %q; %d in the store", got, len(inf.List("")))
		}
		if !isDone(slowReg.Synced()) {
			t.Error("the registration of the slow handler is not synced")
		}
		time.Sleep(101 * time.Minute)
		w.expectCalls(slow, strings.Join(want, ", "))
	})
}

// A handler is synchronized when it has processed all initial objects.
func TestSyncedWaitsForTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.create(pod("a"), pod("b"))
		reg := w.handle(w.pods(), &recorder{delay: time.Minute})
		w.run()
		w.must(w.set.WaitForSync(t.Context()))
		time.Sleep(119 * time.Second)
		if isDone(reg.Synced()) {
			t.Error("synced before it got all objects")
		}
		time.Sleep(2 * time.Second)
		if !isDone(reg.Synced()) {
			t.Error("not synced")
		}
	})
}

// A handler can remove itself and gets no further call.
func TestRemoveFromWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.create(pod("a"), pod("b"))
		h := &selfRemoving{}
		h.reg = w.handle(w.pods(), h)
		w.run()
		synctest.Wait()
		assert.Equalf(t, h.calls, 1, "calls")
	})
}

type selfRemoving struct {
	recorder
	reg   informer.Registration
	calls int
}

func (s *selfRemoving) OnAdd(client.Object, bool) { s.calls++; s.reg.Remove() }

// reference-counted.
func TestEndsWithItsLastHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.create(pod("a"))
		w.run()
		inf := w.pods()
		one, two := w.handle(inf, &recorder{}), w.handle(inf, &recorder{})
		synctest.Wait()
		one.Remove()
		synctest.Wait()
		assert.Equalf(t, w.server.Watches(), 1, "watches with one handler")
		two.Remove()
		synctest.Wait()
		assert.Equalf(t, w.server.Watches(), 0, "watches with no handler")
		again := &recorder{}
		w.handle(inf, again) // an ended informer starts again
		w.expectCalls(again, "+a initial")
		// readers keep the informer running
		if _, ok := inf.Get(client.Key{Namespace: "default", Name: "a"}); !ok {
			t.Error("nothing to read")
		}
		if w.pods() == inf {
			t.Error("For returned the ended informer")
		}
	})
}

// An informer follows a kind that is created later, deleted and created again.
func TestKindAddedAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		gadget := &unstructured.Unstructured{}
		gadget.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"})
		kind := apitest.Kind{GroupVersionKind: gadget.GroupVersionKind(), Plural: "gadgets"}
		inf, err := w.set.For(gadget)
		w.must(err)
		h := &recorder{}
		w.handle(inf, h)
		w.run()
		create := func(name string) {
			t.Helper()
			g := gadget.DeepCopy()
			g.SetNamespace("default")
			g.SetName(name)
			w.create(g)
		}
		time.Sleep(time.Hour)
		if s := w.set.Statuses()[0]; s.Synced || s.Err == nil {
			t.Errorf("before the kind exists: %s", s)
		}
		w.server.AddKind(kind)
		create("a")
		w.must(w.set.WaitForSync(t.Context()))
		w.expectCalls(h, "+a initial")
		w.server.RemoveKind("gadgets")
		time.Sleep(time.Hour)
		if s := w.set.Statuses()[0]; s.Err == nil {
			t.Errorf("after the kind was deleted: %s", s)
		}
		w.server.AddKind(kind)
		create("b")
		time.Sleep(time.Minute)
		w.expectCalls(h, "+b, -a stale")
		create("c")
		w.expectCalls(h, "+c")
		s := w.set.Statuses()[0]
		assert.NoErrorf(t, s.Err, "after the kind was created again: %s", s)
	})
}

// Objects deleted during an interrupted watch are reported as stale.
func TestMissedDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		a, b, c := pod("a"), pod("b"), pod("c")
		w.create(a, b, c)
		r := &recorder{}
		w.handle(w.pods(), r)
		w.run()
		synctest.Wait()
		r.take()
		time.Sleep(time.Minute) // a watch that ends immediately is retried only later
		w.server.SetFaults(apitest.Faults{Intercept: func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("watch") == "" {
				return false
			}
			http.Error(rw, "down", http.StatusInternalServerError)
			return true
		}})
		w.server.CutWatches()
		synctest.Wait()
		w.must(w.direct.Delete(w.ctx, a))
		w.must(w.direct.Delete(w.ctx, b))
		w.create(pod("b")) // another object with that name
		w.must(w.direct.Update(w.ctx, labelled(c, "9")))
		w.server.Compact()
		w.server.SetFaults(apitest.Faults{})
		time.Sleep(2 * time.Minute)
		lines := strings.Split(r.take(), ", ")
		slices.Sort(lines)
		assert.Equalf(t, strings.Join(lines, ", "), "+b, -a stale, -b stale, ~c 9", "calls")
		if log := w.log.String(); strings.Count(log, "level=WARN") != 1 ||
			!strings.Contains(log, "can read Pod again") {
			t.Errorf("log:\n%s", log)
		}
	})
}

// With a server that can't stream lists, the informer lists pages and then watches.
func TestServersWithoutStreaming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.server.SetFaults(apitest.Faults{NoStreaming: true})
		for n := range 1200 { // several pages
			w.create(pod(fmt.Sprint(n)))
		}
		inf := w.pods()
		w.run()
		w.must(w.set.WaitForSync(t.Context()))
		assert.Equalf(t, len(inf.List("default")), 1200, "pods")
		w.create(pod("new"))
		synctest.Wait()
		if _, ok := inf.Get(client.Key{Namespace: "default", Name: "new"}); !ok {
			t.Error("the watch did not follow the list")
		}
	})
}

// A kind that can be listed but not watched, such as metrics.k8s.io's, is listed again and again.
// Its objects have neither uids nor versions.
func TestKindWithoutWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		var lists atomic.Int32
		w.server.SetFaults(apitest.Faults{Intercept: func(rw http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/pods") {
				return false
			}
			rw.Header().Set("Content-Type", "application/json")
			if r.URL.Query().Get("watch") != "" {
				rw.WriteHeader(http.StatusMethodNotAllowed)
				fmt.Fprint(rw, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"MethodNotAllowed","code":405}`)
				return true
			}
			fmt.Fprintf(rw, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"namespace":"default","name":"a","labels":{"v":"%d"}}}]}`, lists.Add(1))
			return true
		}})
		w.pods()
		w.run()
		w.must(w.set.WaitForSync(t.Context()))
		time.Sleep(5 * time.Minute)
		got, err := client.Get[corev1.Pod](t.Context(), w.client, client.KeyOf(pod("a")))
		w.must(err)
		if n := lists.Load(); n < 10 || got.Labels["v"] != fmt.Sprint(n) {
			t.Errorf("the copy has list %s of %d", got.Labels["v"], n)
		}
	})
}

// Handlers get an update of each object after each resync period.
func TestResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, func(c *informer.Config) { c.Resync = time.Hour })
		w.create(labelled(pod("a"), "1"))
		r := &recorder{}
		w.handle(w.pods(), r)
		w.run()
		time.Sleep(150 * time.Minute)
		w.expectCalls(r, "+a initial, ~a 1, ~a 1")
	})
}

// Reads return transformed objects, also from the client's own writes. The written object does not
// change.
func TestTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, func(c *informer.Config) {
			c.Transform = func(obj client.Object) client.Object { obj.SetLabels(nil); return obj }
		})
		w.create(labelled(pod("a"), "1"))
		w.run()
		a, err := client.Get[corev1.Pod](t.Context(), w.client, client.Key{Namespace: "default", Name: "a"})
		w.must(err)
		b := labelled(pod("b"), "1")
		w.server.SetFaults(apitest.Faults{WatchLag: time.Minute})
		w.must(w.client.Create(t.Context(), b))
		// from the overlay
		read, err := client.Get[corev1.Pod](t.Context(), w.client, client.KeyOf(b))
		w.must(err)
		if a.Labels != nil || read.Labels != nil || b.Labels == nil {
			t.Errorf("labels %v, %v, %v", a.Labels, read.Labels, b.Labels)
		}
	})
}

// Informers hold only the objects in their scope. Reads outside of the namespaces of the scope go
// to the server.
func TestScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, func(c *informer.Config) {
			c.Scope = informer.Scope{Namespaces: []string{"one", "two"}}
			c.Scopes = map[client.Object]informer.Scope{
				&corev1.ConfigMap{}: {Labels: labels.SelectorFromSet(labels.Set{"mine": "yes"})},
			}
		})
		for _, namespace := range []string{"one", "two", "three"} {
			p := pod("p")
			p.Namespace = namespace
			mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine",
				Labels: map[string]string{"mine": "yes"}}}
			other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}}
			w.create(p, mine, other, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		}
		w.run()
		ctx := t.Context()
		if pods, err := client.List[corev1.Pod](ctx, w.client); err != nil || len(pods) != 2 {
			t.Errorf("pods: %v, %v", pods, err)
		}
		if p, err := client.Get[corev1.Pod](ctx, w.client, client.Key{Namespace: "three", Name: "p"}); err != nil ||
			p.UID == "" {
			t.Errorf("reads outside of the scope go to the server: %v, %v", p, err)
		}
		if pods, err := client.List[corev1.Pod](ctx, w.client, client.InNamespace("three")); err != nil ||
			len(pods) != 1 {
			t.Errorf("reads outside of the scope go to the server: %v, %v", pods, err)
		}
		if nodes, err := client.List[corev1.Node](ctx, w.client); err != nil || len(nodes) != 3 {
			t.Errorf("nodes have no namespace: %v, %v", nodes, err)
		}
		if maps, err := client.List[corev1.ConfigMap](ctx, w.client); err != nil || len(maps) != 2 {
			t.Errorf("a scope without namespaces has those of the set; configmaps: %v, %v", maps, err)
		}
	})
}

// Typed objects, dynamic objects and metadata of one kind have separate watches.
func TestFormsAreSeparate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.create(labelled(pod("a"), "1"))
		w.run()
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(u.GroupVersionKind())
		for _, obj := range []client.Object{u, m, &corev1.Pod{}} {
			w.must(w.client.Get(t.Context(), client.Key{Namespace: "default", Name: "a"}, obj))
			if obj.GetLabels()["v"] != "1" || obj.GetObjectKind().GroupVersionKind() != u.GroupVersionKind() {
				t.Errorf("%T: %v", obj, obj)
			}
		}
		synctest.Wait()
		assert.Equalf(t, w.server.Watches(), 3, "watches")
	})
}

// A lister reads by key, namespace, label and index. Unknown and duplicate indexes are errors.
func TestListers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		for n := range 6 {
			p := labelled(pod(fmt.Sprint(n)), fmt.Sprint(n%2))
			p.Spec.NodeName = fmt.Sprintf("node-%d", n%3)
			w.create(p)
		}
		pods, err := informer.ListerOf[corev1.Pod](w.set)
		w.must(err)
		byNode := func(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} }
		w.must(pods.Informer.AddIndex("node", byNode))
		if err := pods.Informer.AddIndex("node", byNode); err == nil {
			t.Error("an index was added twice")
		}
		w.run()
		w.must(w.set.WaitForSync(t.Context()))
		if p, ok := pods.Get(client.Key{Namespace: "default", Name: "4"}); !ok || p.Name != "4" {
			t.Errorf("get: %v", p)
		}
		if on, err := pods.ByIndex("node", "node-1"); err != nil || len(on) != 2 {
			t.Errorf("by index: %v, %v", on, err)
		}
		assert.Lenf(t, pods.List("default", labels.SelectorFromSet(labels.Set{"v": "1"})), 3, "odd")
		assert.Lenf(t, pods.List("other", nil), 0, "none")
		if _, err := pods.ByIndex("nothing", ""); err == nil {
			t.Error("no error for an unknown index")
		}
	})
}

// A missing permission or kind is logged immediately, by name, and is the error of a wait.
func TestUnreadableKinds(t *testing.T) {
	forbidden := func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/pods") {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"pods is forbidden: not you"}`))
		return true
	}
	gadget := &unstructured.Unstructured{}
	gadget.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"})
	for name, tt := range map[string]struct {
		obj  client.Object
		want string
	}{
		"permission": {&corev1.Pod{}, "pods is forbidden: not you"},
		"kind":       {gadget, `no matches for kind \"Gadget\" in version \"example.com/v1\"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				w.server.SetFaults(apitest.Faults{Intercept: forbidden})
				_, err := w.set.For(tt.obj)
				w.must(err)
				w.run()
				synctest.Wait()
				if log := w.log.String(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, tt.want) {
					t.Errorf("log:\n%s", log)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				unquoted := strings.ReplaceAll(tt.want, `\`, "")
				if err := w.set.WaitForSync(ctx); !errors.Is(err, context.DeadlineExceeded) ||
					!errors.Is(err, informer.ErrNotSynced) || !strings.Contains(err.Error(), unquoted) {
					t.Errorf("wait: %v", err)
				}
				log := w.log.String()
				assert.Equalf(t, strings.Count(log, "level=ERROR"), 1, "logged twice:\n%s", log)
				begin := time.Now()
				if err := w.client.Get(t.Context(), client.Key{Namespace: "default", Name: "a"}, tt.obj); err == nil ||
					!strings.Contains(err.Error(), unquoted) || time.Since(begin) > 0 {
					t.Errorf("get after %v: %v", time.Since(begin), err)
				}
				w.server.SetFaults(apitest.Faults{})
				w.server.AddKind(apitest.Kind{GroupVersionKind: gadget.GroupVersionKind(), Plural: "gadgets"})
				w.must(w.set.WaitForSync(t.Context()))
			})
		})
	}
}

// Before Run and after it, reads fail unless they are live. A second Run is an error.
func TestReadsWithoutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		get := func(opts ...client.GetOption) error {
			return w.client.Get(t.Context(), client.Key{Namespace: "default", Name: "a"}, &corev1.Pod{}, opts...)
		}
		assert.ErrorIsf(t, get(), informer.ErrNotRunning, "before")
		if err := get(client.Live); !apierrors.IsNotFound(err) {
			t.Errorf("live: %v", err)
		}
		w.run()
		if err := get(); !apierrors.IsNotFound(err) {
			t.Errorf("running: %v", err)
		}
		w.stop()
		synctest.Wait()
		_, err := client.List[corev1.Secret](t.Context(), w.client)
		assert.ErrorIsf(t, err, informer.ErrNotRunning, "after")
		if err := w.set.Run(t.Context()); err == nil {
			t.Error("run twice")
		}
	})
}
