package faults_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/client/faults"
	"kelson.dev/operator/internal/apitest"
)

// newTransport returns a transport with a server below it, and a client of client-go above it.
func newTransport(t *testing.T) (*faults.Transport, *kubernetes.Clientset) {
	t.Helper()
	config := apitest.New().REST()
	faulty := faults.NewTransport(config.Transport)
	config.Transport, config.QPS = faulty, -1
	c, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return faulty, c
}

// Requests of client-go are calls: verb, resource, names and subresources.
func TestTransportCalls(t *testing.T) {
	var got http.RoundTripper = roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	pb := &bytes.Buffer{}
	require.NoError(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(pod("of-protobuf"), pb))
	for _, test := range []struct {
		method, url, content, body string
		want                       faults.Call
	}{
		{"GET", "/api/v1/pods", "", "", faults.Call{Verb: faults.List, Resource: "pods"}},
		{"GET", "/api/v1/pods?watch=true", "", "", faults.Call{Verb: faults.Watch, Resource: "pods"}},
		{"GET", "/api/v1/watch/namespaces/a/pods", "", "",
			faults.Call{Verb: faults.Watch, Resource: "pods", Namespace: "a"}},
		{"GET", "/apis/apps/v1/namespaces/a/deployments/b", "", "",
			faults.Call{Verb: faults.Get, Resource: "deployments.apps", Namespace: "a", Name: "b"}},
		{"PUT", "/apis/apps/v1/namespaces/a/deployments/b/scale", "", "{}",
			faults.Call{Verb: faults.Update, Resource: "deployments.apps", Namespace: "a", Name: "b",
				Subresource: "scale"}},
		{"GET", "/api/v1/namespaces", "", "", faults.Call{Verb: faults.List, Resource: "namespaces"}},
		{"GET", "/api/v1/namespaces/a", "", "", faults.Call{Verb: faults.Get, Resource: "namespaces", Name: "a"}},
		{"PUT", "/api/v1/namespaces/a/finalize", "", "{}",
			faults.Call{Verb: faults.Update, Resource: "namespaces", Name: "a", Subresource: "finalize"}},
		{"POST", "/api/v1/namespaces/a/pods", "application/json", `{"metadata":{"name":"b"}}`,
			faults.Call{Verb: faults.Create, Resource: "pods", Namespace: "a", Name: "b"}},
		{"POST", "/api/v1/namespaces/a/pods", "application/vnd.kubernetes.protobuf", pb.String(),
			faults.Call{Verb: faults.Create, Resource: "pods", Namespace: "a", Name: "of-protobuf"}},
		{"POST", "/api/v1/namespaces/a/pods", "application/json", "no JSON",
			faults.Call{Verb: faults.Create, Resource: "pods", Namespace: "a"}},
		{"POST", "/api/v1/namespaces/a/pods/b/eviction", "", "{}",
			faults.Call{Verb: faults.Create, Resource: "pods", Namespace: "a", Name: "b", Subresource: "eviction"}},
		{"PATCH", "/api/v1/nodes/n", "application/apply-patch+yaml; charset=utf-8", "{}",
			faults.Call{Verb: faults.Apply, Resource: "nodes", Name: "n"}},
		{"PATCH", "/api/v1/nodes/n", "application/merge-patch+json", "{}",
			faults.Call{Verb: faults.Patch, Resource: "nodes", Name: "n"}},
		{"DELETE", "/api/v1/nodes", "", "", faults.Call{Verb: faults.DeleteAllOf, Resource: "nodes"}},
		{"DELETE", "/planes/1/api/v1/nodes/n", "", "", faults.Call{Verb: faults.Delete, Resource: "nodes", Name: "n"}},
		{"GET", "/apis/apps/v1", "", "", faults.Call{Verb: "get", Path: "/apis/apps/v1"}},
		{"GET", "/api/v1", "", "", faults.Call{Verb: "get", Path: "/api/v1"}},
		{"GET", "/healthz", "", "", faults.Call{Verb: "get", Path: "/healthz"}},
	} {
		passed := ""
		faulty := faults.NewTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Body != nil {
				body, _ := io.ReadAll(r.Body)
				passed = string(body)
			}
			return got.RoundTrip(r)
		}))
		r, err := http.NewRequest(test.method, "http://server"+test.url, strings.NewReader(test.body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", test.content)
		_, err = faulty.RoundTrip(r)
		assert.NoErrorf(t, err, "%s %s", test.method, test.url)
		if calls := faulty.Calls(); len(calls) != 1 || calls[0] != test.want {
			t.Errorf("%s %s: %+v, want %+v", test.method, test.url, calls, test.want)
		}
		if passed != test.body {
			t.Errorf("%s %s: the body %q arrived as %q", test.method, test.url, test.body, passed)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// client-go gets each error as from a server, or from the connection.
func TestTransportErrors(t *testing.T) {
	faulty, c := newTransport(t)
	pods := c.CoreV1().Pods("default")
	for _, test := range []struct {
		name string
		err  faults.Error
		is   func(error) bool
	}{
		{"conflict", faults.Conflict, apierrors.IsConflict},
		{"already exists", faults.AlreadyExists, apierrors.IsAlreadyExists},
		{"not found", faults.NotFound, apierrors.IsNotFound},
		{"forbidden", faults.Forbidden, apierrors.IsForbidden},
		{"server error", faults.ServerError, apierrors.IsInternalError},
		{"unavailable", faults.Unavailable, apierrors.IsServiceUnavailable},
		{"cut", faults.Cut, func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }},
		{"deadline", faults.As(context.DeadlineExceeded), func(err error) bool {
			return errors.Is(err, context.DeadlineExceeded)
		}},
	} {
		rule := faulty.On(faults.Call{Verb: faults.Create, Resource: "pods", Name: "a"}).Times(1).Return(test.err)
		if _, err := pods.Create(t.Context(), pod("a"), metav1.CreateOptions{}); !test.is(err) {
			t.Errorf("%s: %v", test.name, err)
		}
		if rule.Hits() != 1 {
			t.Errorf("%s: %d hits", test.name, rule.Hits())
		}
	}
	if _, err := pods.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a create that was refused has reached the server: %v", err)
	}
	faulty.On(faults.Call{Verb: faults.Create}).After().Times(1).Return(faults.Cut)
	if _, err := pods.Create(t.Context(), pod("a"), metav1.CreateOptions{}); err == nil {
		t.Error("the response was not lost")
	}
	_, err := pods.Get(t.Context(), "a", metav1.GetOptions{})
	assert.NoErrorf(t, err, "the create whose response was lost")
	health := faulty.On(faults.Call{Path: "/heal*"}).Return(faults.Unavailable)
	if _, err := c.RESTClient().Get().AbsPath("/healthz").DoRaw(t.Context()); !apierrors.IsServiceUnavailable(err) ||
		health.Hits() != 1 {
		t.Errorf("/healthz: %v", err)
	}
}

// A 429 has the header Retry-After, by which client-go waits.
func TestTransportRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty, c := newTransport(t)
		faulty.On(faults.Call{Verb: faults.List}).Times(2).Return(faults.TooManyRequests)
		begin := time.Now()
		_, err := c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		if waited := time.Since(begin); waited != 2*time.Second {
			t.Errorf("client-go waited %v, want 2s", waited)
		}
		assert.Equalf(t, len(faulty.Calls()), 3, "requests")
	})
}

// An event can end its watch, with or without a Status, before or after it arrives.
func TestTransportEvents(t *testing.T) {
	for _, test := range []struct {
		name  string
		err   faults.Error
		after bool
		want  []string
	}{
		{"cut", faults.Cut, false, []string{"ADDED a"}},
		{"cut after", faults.Cut, true, []string{"ADDED a", "ADDED b"}},
		{"end", faults.As(io.EOF), false, []string{"ADDED a"}},
		{"expired", faults.Expired, false, []string{"ADDED a", "ERROR Expired"}},
		{"expired after", faults.Expired, true, []string{"ADDED a", "ADDED b", "ERROR Expired"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			faulty, c := newTransport(t)
			rule := faulty.On(faults.Call{Verb: faults.Event, Resource: "pods"}).Skip(1).Return(test.err)
			if test.after {
				rule.After()
			}
			w, err := c.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			defer w.Stop()
			for _, name := range []string{"a", "b", "c"} {
				_, err = c.CoreV1().Pods("default").Create(t.Context(), pod(name),
					metav1.CreateOptions{})
				require.NoError(t, err)
			}
			var got []string
			for e := range w.ResultChan() {
				switch obj := e.Object.(type) {
				case *corev1.Pod:
					got = append(got, string(e.Type)+" "+obj.Name)
				case *metav1.Status:
					// client-go reports a broken connection as a different error.
					if obj.Reason == metav1.StatusReasonExpired {
						got = append(got, string(e.Type)+" "+string(obj.Reason))
					}
				}
			}
			assert.Slicef(t, got, test.want, "events")
			assert.Equalf(t, rule.Hits(), 1, "hits")
		})
	}
}

// client-go's informer survives cut and expired watches, and sees a held event late.
func TestTransportInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty, c := newTransport(t)
		pods := c.CoreV1().Pods("default")
		cut := faulty.On(faults.Call{Verb: faults.Event, Name: "b"}).Times(1).Return(faults.Cut)
		expired := faulty.On(faults.Call{Verb: faults.Event, Name: "c"}).Times(1).Return(faults.Expired)
		refused := faulty.On(faults.Call{Verb: faults.List}).Skip(1).Times(2).Return(faults.Unavailable)
		informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListFunc:  func(o metav1.ListOptions) (runtime.Object, error) { return pods.List(t.Context(), o) },
			WatchFunc: func(o metav1.ListOptions) (watch.Interface, error) { return pods.Watch(t.Context(), o) },
		}, notWatchList{}), &corev1.Pod{}, 0, nil)
		// The default handler sleeps until the real time in a bubble.
		err := informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
		require.NoError(t, err)
		store := informer.GetStore()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go informer.RunWithContext(ctx)
		for _, name := range []string{"a", "b", "c", "d"} {
			_, err := pods.Create(ctx, pod(name), metav1.CreateOptions{})
			require.NoError(t, err)
			time.Sleep(time.Minute)
			synctest.Wait()
			if _, exists, _ := store.GetByKey("default/" + name); !exists {
				t.Errorf("the informer has not seen %s", name)
			}
		}
		assert.Slicef(t, []int{cut.Hits(), expired.Hits(), refused.Hits()}, []int{1, 1, 2}, "hits")
		held := faulty.On(faults.Call{Verb: faults.Event, Name: "e"}).Hold()
		for _, name := range []string{"e", "f"} {
			_, err := pods.Create(ctx, pod(name), metav1.CreateOptions{})
			require.NoError(t, err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equalf(t, len(store.ListKeys()), 4, "pods while the watch is held")
		held.Release()
		synctest.Wait()
		assert.Equalf(t, len(store.ListKeys()), 6, "pods after the watch was released")
		cancel()
		synctest.Wait()
	})
}

// notWatchList is a client that does not get lists by watch.
type notWatchList struct{}

func (notWatchList) IsWatchListSemanticsUnSupported() bool { return true }

// Wrap works with a rest.Config that has its own transport, and the rules apply to all clients.
func TestTransportWrap(t *testing.T) {
	config := apitest.New().REST()
	faulty := faults.NewTransport(nil)
	config.Wrap(faulty.Wrap)
	rule := faulty.On(faults.Call{Resource: "pods"}).Return(faults.Forbidden)
	ours, err := client.New(client.Config{REST: config})
	require.NoError(t, err)
	theirs, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	if err := ours.Create(t.Context(), pod("a")); !apierrors.IsForbidden(err) {
		t.Errorf("this library: %v", err)
	}
	if _, err := theirs.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("client-go: %v", err)
	}
	assert.Equalf(t, rule.Hits(), 2, "hits")
}

// A rule that can never match is a mistake of the test.
func TestRulesThatNeverMatch(t *testing.T) {
	for name, on := range map[string]func(){
		"the kind of a request":      func() { faults.NewTransport(nil).On(faults.Call{Kind: "Pod"}) },
		"the resource of a call":     func() { newClient(t).On(faults.Call{Resource: "pods"}) },
		"an event of a client":       func() { newClient(t).On(faults.Call{Verb: faults.Event}) },
		"a malformed pattern":        func() { faults.NewTransport(nil).On(faults.Call{Name: "["}) },
		"a malformed pattern (path)": func() { faults.NewTransport(nil).On(faults.Call{Path: "["}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			on()
		}()
	}
}

// Reset and the end of a request end what a rule holds.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty, c := newTransport(t)
		faulty.On(faults.Call{Verb: faults.Create}).Hold()
		ended := make(chan error, 2)
		ctx, cancel := context.WithCancel(t.Context())
		for i, ctx := range []context.Context{ctx, t.Context()} {
			go func() {
				_, err := c.CoreV1().Pods("default").Create(ctx, pod([]string{"a", "b"}[i]), metav1.CreateOptions{})
				ended <- err
			}()
		}
		synctest.Wait()
		if len(ended) > 0 {
			t.Fatal("a held request has ended")
		}
		cancel()
		assert.ErrorIsf(t, <-ended, context.Canceled, "the request that was cancelled")
		faulty.Reset()
		assert.NoErrorf(t, <-ended, "the request that was released")
	})
}
