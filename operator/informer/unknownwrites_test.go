package informer_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
)

// losing is a transport that loses the responses to some writes, which the server has executed.
type losing struct {
	server *apitest.Server

	mu   sync.Mutex
	lose func(*http.Request) (*http.Response, error) // nil: none
	gets int
}

var errCut = errors.New("connection cut")

func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.server.RoundTrip(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Method == http.MethodGet {
		l.gets++
	} else if l.lose != nil && err == nil {
		resp.Body.Close()
		return l.lose(r)
	}
	return resp, err
}

func (l *losing) set(lose func(*http.Request) (*http.Response, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose, l.gets = lose, 0
}

// reads returns the number of reads since the last call of set.
func (l *losing) reads() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gets
}

// newLosing returns a fixture whose informers receive each event a minute late, and whose client
// writes through a losing transport.
func newLosing(t *testing.T) (*fixture, *losing) {
	l := &losing{}
	w := newFixture(t, func(c *informer.Config) {
		var err error
		c.Client, err = client.New(client.Config{REST: &rest.Config{Host: "http://test", Transport: l}})
		require.NoError(t, err)
	})
	l.server = w.server
	w.run()
	w.names()
	w.lag(time.Minute)
	return w, l
}

// A write whose response is lost is read back before the next read of the object.
func TestLostResponses(t *testing.T) {
	cut := func(*http.Request) (*http.Response, error) { return nil, errCut }
	fails := func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 500, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(
				`{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"reason":"InternalError","message":"etcd"}`)), Request: r}, nil
	}
	for name, lose := range map[string]func(*http.Request) (*http.Response, error){"cut": cut, "500": fails} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { lostResponses(t, lose) })
		})
	}
}

func lostResponses(t *testing.T, lose func(*http.Request) (*http.Response, error)) {
	w, l := newLosing(t)
	w.create(pod("gone"), pod("kept"))
	time.Sleep(3 * time.Minute) // the informer has them: each event takes a minute
	lost := func(write func() error) {
		t.Helper()
		l.set(lose)
		if err := write(); err == nil {
			t.Fatal("the response was not lost")
		}
		l.set(nil)
	}
	want := func(names string) {
		t.Helper()
		assert.Equalf(t, w.names(), names, "the list")
	}
	lost(func() error { return w.client.Create(w.ctx, pod("a")) })
	if w.get("kept"); l.reads() != 0 {
		t.Error("a read of another object went to the server")
	}
	w.atOnce(func() {
		want("a gone kept")
		if w.get("a") == nil {
			t.Error("the created pod is not found")
		}
	})
	assert.Equalf(t, l.reads(), 1, "reads were sent")
	lost(func() error { return w.client.Delete(w.ctx, pod("gone")) })
	if w.get("gone") != nil {
		t.Error("the deleted pod is found")
	}
	want("a kept")
	lost(func() error { return w.client.Update(w.ctx, labelled(pod("kept"), "1")) })
	assert.Equalf(t, w.get("kept").Labels["v"], "1", "label")
	// an apply that was executed before does not count afterwards
	p := labelled(pod("applied"), "1")
	w.must(w.client.Apply(w.ctx, p))
	time.Sleep(2 * time.Minute)
	lost(func() error {
		return w.client.Patch(w.ctx, pod("applied"), client.MergeFrom(labelled(pod("applied"), "x")))
	})
	w.must(w.client.Apply(w.ctx, labelled(pod("applied"), "1")))
	live := pod("applied")
	w.must(w.direct.Get(w.ctx, client.KeyOf(live), live))
	assert.Equalf(t, live.Labels["v"], "1", "after the apply the label")
	// without a name, the outcome is unknown for all objects of the kind until the watch has caught
	// up
	lost(func() error { return w.client.DeleteAllOf(w.ctx, &corev1.Pod{}, client.InNamespace("default")) })
	want("")
	if w.get("a") != nil {
		t.Error("the deleted pod is found")
	}
}

// While the outcome of a write can't be found out, reads of its object fail. The outcome of
// requests that the server has rejected, or that were not sent, is known.
func TestReadsAfterUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := newLosing(t)
		l.set(func(*http.Request) (*http.Response, error) { return nil, errCut })
		if err := w.client.Create(w.ctx, pod("a")); !errors.Is(err, errCut) {
			t.Fatalf("error %v", err)
		}
		w.server.SetFaults(apitest.Faults{Intercept: func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return true
		}})
		if _, err := client.Get[corev1.Pod](w.ctx, w.client, client.Key{Namespace: "default", Name: "a"}); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("get: %v", err)
		}
		if _, err := client.List[corev1.Pod](w.ctx, w.client,
			client.InNamespace("default")); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("list: %v", err)
		}
		assert.Equalf(t, w.names(client.InNamespace("elsewhere")), "", "another namespace")
		w.server.SetFaults(apitest.Faults{})
		if w.get("a") == nil {
			t.Error("the pod is not found")
		}
		l.set(nil)
		if err := w.client.Create(w.ctx, pod("a")); !apierrors.IsAlreadyExists(err) {
			t.Errorf("error %v", err)
		}
		l.set(nil)
		w.get("a")
		w.names()
		assert.Equalf(t, l.reads(), 0, "reads were sent after a refused write")
	})
}

// Without permission to get objects, the client finds out the outcome of writes with lists.
func TestUnknownOutcomeWithoutGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := newLosing(t)
		w.server.SetFaults(apitest.Faults{Intercept: func(rw http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/pods/a") {
				return false
			}
			rw.WriteHeader(http.StatusForbidden)
			return true
		}})
		l.set(func(*http.Request) (*http.Response, error) { return nil, errCut })
		_ = w.client.Create(w.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
		l.set(nil)
		if w.get("a") == nil {
			t.Error("the pod is not found")
		}
	})
}
