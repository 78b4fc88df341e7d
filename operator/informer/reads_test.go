package informer_test

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
)

// The cache has writes of others once the watch has delivered them; live reads have them
// immediately.
func TestWritesOfOthersComeWithTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLagging(t)
		p := labelled(pod("a"), "1")
		w.must(w.direct.Create(w.ctx, p)) // a separate client, as in another process
		w.atOnce(func() {
			if w.get("a") != nil {
				t.Error("the cache has a write of another client before its watch")
			}
			_, err := client.Get[corev1.Pod](w.ctx, w.client, client.KeyOf(p), client.Live)
			assert.NoErrorf(t, err, "a live")
			if w.get("a") != nil {
				t.Error("a live read changes the cache")
			}
		})
		time.Sleep(2 * time.Minute)
		if w.get("a") == nil {
			t.Error("the watch did not deliver it")
		}
	})
}

// lossy drops responses after the server has executed the request.
type lossy struct {
	http.RoundTripper
	lose atomic.Bool
}

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if r.Method != http.MethodGet && l.lose.Load() && err == nil {
		_ = resp.Body.Close()
		return nil, errors.New("connection reset by peer")
	}
	return resp, err
}

// A write whose response was lost may have been executed. The next read asks the server, and fails
// if the server does not answer.
func TestReadsAfterLostResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, link := apitest.New(), &lossy{}
		link.RoundTripper = server
		direct, err := client.New(client.Config{REST: &rest.Config{Host: "http://test", Transport: link}})
		must(t, err)
		w := newFixture(t, func(c *informer.Config) { c.Client = direct })
		w.server = server
		w.run()
		w.names()
		w.lag(time.Minute)
		link.lose.Store(true)
		if err := w.client.Create(w.ctx, labelled(pod("a"), "1")); err == nil {
			t.Fatal("the response was not lost")
		}
		link.lose.Store(false)
		if w.get("a") == nil {
			t.Error("a read does not have the write whose response was lost")
		}
	})
}

// Handlers and predicates get events from the watch, even for the operator's own writes. All reads
// already include these writes.
func TestHandlersFollowTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLagging(t)
		h := &delayed{fixture: w}
		_, err := w.pods().AddHandler(h)
		w.must(err)
		p := labelled(pod("a"), "1")
		w.must(w.client.Create(w.ctx, p))
		synctest.Wait()
		if seen := h.take(); len(seen) > 0 || w.get("a") == nil {
			t.Errorf("before the watch, the handler has %v, and a read %v", seen, w.get("a"))
		}
		time.Sleep(2 * time.Minute)
		assert.Slicef(t, h.take(), []string{"a"}, "the handler")
	})
}

// delayed records the names of new objects, which reads must have.
type delayed struct {
	*fixture
	mu   sync.Mutex
	seen []string
}

func (d *delayed) OnAdd(obj client.Object, _ bool) {
	if d.get(obj.GetName()) == nil {
		d.t.Errorf("a read in the handler does not have %s", obj.GetName())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, obj.GetName())
}
func (d *delayed) OnUpdate(client.Object, client.Object) {}
func (d *delayed) OnDelete(client.Object, bool)          {}

func (d *delayed) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.seen = nil }()
	return d.seen
}

// An informer cannot wait or send requests to the server. It shows a write with another object type
// once the watch has delivered it; only metadata can be taken from any object. The client waits,
// and asks the server after a second.
func TestInformersOfOtherTypesFollowTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLagging(t)
		kind := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
		u, m := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
		u.SetGroupVersionKind(kind)
		m.SetGroupVersionKind(kind)
		whole, err := w.set.For(u)
		w.must(err)
		metadata, err := w.set.For(m)
		w.must(err)
		w.must(w.set.WaitForSync(w.ctx))
		w.lag(time.Minute)
		w.must(w.client.Create(w.ctx, labelled(pod("a"), "1")))
		key := client.KeyOf(pod("a"))
		if _, has := whole.Get(key); has {
			t.Error("the informer made an unstructured object of a typed one")
		}
		if _, has := metadata.Get(key); !has {
			t.Error("the informer of metadata does not have the write")
		}
		begin := time.Now()
		w.must(w.client.Get(w.ctx, key, u))
		if took := time.Since(begin); u.GetLabels()["v"] != "1" || took > 2*time.Second {
			t.Errorf("the client, after %v: %v", took, u)
		}
		time.Sleep(2 * time.Minute)
		if _, has := whole.Get(key); !has {
			t.Error("the watch did not deliver it")
		}
	})
}

// Informers that start again have all earlier writes.
func TestRestartReadsEarlierWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLagging(t)
		w.must(w.client.Create(w.ctx, labelled(pod("a"), "1")))
		again := newFixture(t, func(c *informer.Config) { c.Client = w.direct })
		again.server = w.server
		done := make(chan error, 1)
		go func() { done <- again.set.Run(again.ctx) }()
		assert.Containsf(t, again.names(), "a", "after a restart")
		again.stop()
		w.must(<-done)
	})
}
