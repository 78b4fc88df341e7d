//go:build linux

package balancer

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// fake is an API server that responds with its name.
type fake struct {
	*httptest.Server
	unready atomic.Bool
}

func startFake(t *testing.T, name string) *fake {
	f := &fake{}
	f.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" && f.unready.Load() {
			http.Error(w, "etcd failed", http.StatusInternalServerError)
			return
		}
		if r.URL.Path == "/watch" {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, name)
	}))
	t.Cleanup(f.Close)
	return f
}

// run starts a balancer for the servers, and returns a function that sends a request through it.
func run(t *testing.T, servers ...*fake) (b *Balancer, get func(path string) (*http.Response, error)) {
	t.Helper()
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL)
	}
	b, err := Listen("127.0.0.1:0", urls, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b.interval, b.current = 20*time.Millisecond, 0
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	h := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true}}
	return b, func(path string) (*http.Response, error) { return h.Get(b.URL() + path) }
}

func body(t *testing.T, resp *http.Response, err error) string {
	t.Helper()
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not true: %s", what)
		}
	}
}

// Connections go to one server as long as it is ready, and to another after that.
func TestFailover(t *testing.T) {
	first, second := startFake(t, "first"), startFake(t, "second")
	_, get := run(t, first, second)
	asked := func() string { resp, err := get("/"); return body(t, resp, err) }
	for range 10 {
		if got := asked(); got != "first" {
			t.Fatalf("answered by %q, want the first server", got)
		}
	}
	watch, err := get("/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	first.unready.Store(true)
	if _, err := io.ReadAll(watch.Body); err == nil {
		t.Error("the watch on a server that is not ready ended without an error")
	}
	if got := asked(); got != "second" {
		t.Errorf("answered by %q, want the second server", got)
	}
	// The balancer keeps the second server until that server stops.
	first.unready.Store(false)
	if got := asked(); got != "second" {
		t.Errorf("answered by %q, want the second server again", got)
	}
	second.CloseClientConnections()
	second.Close()
	eventually(t, "the first server answers again", func() bool { return asked() == "first" })
}

// Servers get connections even if none is ready: their own responses tell the client more.
func TestAllUnready(t *testing.T) {
	only := startFake(t, "only")
	only.unready.Store(true)
	b, get := run(t, only)
	eventually(t, "a probe finds the server not ready", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.servers[0].failed >= failures
	})
	resp, err := get("/")
	if got := body(t, resp, err); got != "only" {
		t.Errorf("answered by %q", got)
	}
}

// A server that is down closes the client's connection instead of keeping it waiting.
func TestNoServer(t *testing.T) {
	down := startFake(t, "down")
	down.Close()
	_, get := run(t, down)
	if resp, err := get("/"); err == nil {
		resp.Body.Close()
		t.Error("a request without a server was answered")
	}
}
