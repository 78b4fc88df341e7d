package internal_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kelson.dev/operator/internal/http1"
)

// fixture is a server that counts its connections, and a transport to it.
type fixture struct {
	*httptest.Server
	connections atomic.Int32
	closed      chan struct{} // receives a value for each closed connection
	otherwise   atomic.Int32
	transport   *http1.Transport
	base        *http.Transport
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func newFixture(t *testing.T, handler http.HandlerFunc, change ...func(*http1.Config)) *fixture {
	t.Helper()
	w := &fixture{Server: httptest.NewUnstartedServer(handler), closed: make(chan struct{}, 100)}
	w.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			w.connections.Add(1)
		case http.StateClosed:
			w.closed <- struct{}{}
		}
	}
	w.StartTLS()
	t.Cleanup(w.Server.Close)
	trusted := w.Client().Transport.(*http.Transport).TLSClientConfig
	w.base = &http.Transport{TLSClientConfig: trusted, DialContext: (&net.Dialer{}).DialContext, TLSHandshakeTimeout: time.Second}
	t.Cleanup(w.base.CloseIdleConnections)
	cfg := http1.Config{
		Base: w.base, TLS: func() *tls.Config { return trusted }, Connections: 3, Idle: time.Minute, Answer: time.Minute,
		Otherwise: roundTripper(func(r *http.Request) (*http.Response, error) {
			w.otherwise.Add(1)
			return w.base.RoundTrip(r)
		}),
	}
	for _, c := range change {
		c(&cfg)
	}
	w.transport = http1.New(cfg)
	t.Cleanup(w.transport.CloseIdleConnections)
	return w
}

func (w *fixture) do(ctx context.Context, method, path string, body io.Reader) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.URL+path, body)
	if err != nil {
		return "", err
	}
	resp, err := w.transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(data)), err
}

func echo(w http.ResponseWriter, r *http.Request) {
	data, _ := io.ReadAll(r.Body)
	fmt.Fprint(w, r.Method, r.URL.Path, string(data))
}

// One connection serves requests in sequence; concurrent requests use several connections, up to
// the limit.
func TestConnections(t *testing.T) {
	var now, most atomic.Int32
	w := newFixture(t, func(rw http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if r.URL.Path == "/slow" {
			time.Sleep(2 * time.Millisecond)
		}
		echo(rw, r)
	})
	for n := range 20 {
		got, err := w.do(t.Context(), "PATCH", "/a", strings.NewReader(fmt.Sprint(n)))
		if want := fmt.Sprint("200 PATCH/a", n); err != nil || got != want {
			t.Fatalf("%q %v, want %q", got, err, want)
		}
	}
	if n := w.connections.Load(); n != 1 {
		t.Errorf("%d connections for one request after the other", n)
	}
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			if got, err := w.do(t.Context(), "POST", "/slow", strings.NewReader("x")); err != nil || got != "200 POST/slowx" {
				t.Errorf("%q %v", got, err)
			}
		})
	}
	all.Wait()
	if n := w.connections.Load(); n != 3 || most.Load() != 3 {
		t.Errorf("%d connections, %d requests at once; 3 are allowed", n, most.Load())
	}
	if n := w.otherwise.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

// MACH-01
func TestAnswers(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	w := newFixture(t, func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/empty":
			rw.WriteHeader(http.StatusNoContent)
		case "/chunked":
			for range 3 {
				fmt.Fprint(rw, "part ")
				rw.(http.Flusher).Flush()
			}
		case "/large":
			fmt.Fprint(rw, large)
		case "/early":
			rw.WriteHeader(http.StatusEarlyHints)
			fmt.Fprint(rw, "late")
		case "/close":
			rw.Header().Set("Connection", "close")
			fmt.Fprint(rw, "bye")
		case "/refused": // before the body is read
			rw.WriteHeader(http.StatusRequestEntityTooLarge)
		default:
			echo(rw, r)
		}
	})
	for _, tt := range []struct {
		path, body, want string
		connections      int32 // by then
	}{
		{"/empty", "", "204 ", 1},
		{"/chunked", "", "200 part part part ", 1},
		{"/large", "", "200 " + large, 1},
		{"/early", "", "200 late", 1},
		{"/sent", large, "200 PUT/sent" + large, 1},
		{"/close", "", "200 bye", 1},
		{"/after", "", "200 PUT/after", 2},
		{"/refused", large, "413 ", 2},
		{"/again", "", "200 PUT/again", 3},
	} {
		got, err := w.do(t.Context(), "PUT", tt.path, strings.NewReader(tt.body))
		if err != nil || got != tt.want {
			t.Errorf("%s: %.40q %v, want %.40q", tt.path, got, err, tt.want)
		}
		if n := w.connections.Load(); n != tt.connections {
			t.Errorf("%s: %d connections so far, want %d", tt.path, n, tt.connections)
		}
	}
	// A response that is not read to its end closes its connection, and no other.
	req, _ := http.NewRequestWithContext(t.Context(), "PUT", w.URL+"/large", nil)
	resp, err := w.transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got, err := w.do(t.Context(), "PUT", "/next", nil); err != nil || got != "200 PUT/next" || w.connections.Load() != 4 {
		t.Errorf("%q %v, %d connections", got, err, w.connections.Load())
	}
}

// A connection that the server closed while it was idle is not used for another request.
func TestClosedByServer(t *testing.T) {
	w := newFixture(t, echo)
	for n := range 5 {
		if got, err := w.do(t.Context(), "DELETE", "/a", nil); err != nil || got != "200 DELETE/a" {
			t.Fatalf("%d: %q %v", n, got, err)
		}
		w.CloseClientConnections()
	}
	if n := w.connections.Load(); n != 5 {
		t.Errorf("%d connections, want 5", n)
	}
}

// A request ends with its context in every phase; the next request is not affected.
func TestCancelled(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	w := newFixture(t, func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/head":
			arrived <- struct{}{}
			<-release
		case "/body":
			fmt.Fprint(rw, "begun")
			rw.(http.Flusher).Flush()
			arrived <- struct{}{}
			<-release
		default:
			echo(rw, r)
		}
	}, func(c *http1.Config) { c.Connections = 1 })
	gone := errors.New("enough")
	for _, path := range []string{"/head", "/body"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() {
			_, err := w.do(ctx, "POST", path, nil)
			ended <- err
		}()
		// Another request waits for the only connection.
		<-arrived
		waiting, giveUp := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := w.do(waiting, "POST", "/a", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: the second request: %v", path, err)
		}
		giveUp()
		cancel(gone)
		if err := <-ended; err == nil || path == "/head" && !errors.Is(err, gone) {
			t.Errorf("%s: %v", path, err)
		}
		if got, err := w.do(t.Context(), "POST", "/a", nil); err != nil || got != "200 POST/a" {
			t.Errorf("%s: afterwards %q %v", path, got, err)
		}
	}
}

// MACH-01
func TestFailures(t *testing.T) {
	w := newFixture(t, func(rw http.ResponseWriter, r *http.Request) {
		conn, _, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		if r.URL.Path == "/garbage" {
			fmt.Fprint(conn, "this is not HTTP\r\n\r\n")
		}
		if r.URL.Path == "/half" {
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		}
		conn.Close()
	})
	for path, want := range map[string]string{"/gone": "before it answered", "/garbage": "malformed HTTP", "/half": "unexpected EOF"} {
		if got, err := w.do(t.Context(), "PUT", path, strings.NewReader("x")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q %v", path, got, err)
		}
	}
	w.Server.Close()
	if _, err := w.do(t.Context(), "PUT", "/a", nil); err == nil {
		t.Error("no error for an unreachable server")
	}
}

// A request fails if the server does not respond, as behind a load balancer that has lost it.
func TestNoResponse(t *testing.T) {
	over := make(chan struct{})
	w := newFixture(t, func(http.ResponseWriter, *http.Request) { <-over }, func(c *http1.Config) { c.Answer = 10 * time.Millisecond })
	defer close(over)
	if got, err := w.do(t.Context(), "PUT", "/a", nil); err == nil || !strings.Contains(err.Error(), "did not respond within 10ms") {
		t.Errorf("%q %v", got, err)
	}
}

// net/http handles unusual requests.
func TestOtherRequests(t *testing.T) {
	w := newFixture(t, echo)
	if got, err := w.do(t.Context(), "GET", "/a", nil); err != nil || got != "200 GET/a" || w.otherwise.Load() != 1 {
		t.Errorf("a read: %q %v", got, err)
	}
	unknown := io.MultiReader(strings.NewReader("a"), bytes.NewReader([]byte("b")))
	if got, err := w.do(t.Context(), "POST", "/a", unknown); err != nil || got != "200 POST/aab" || w.otherwise.Load() != 2 {
		t.Errorf("a body of unknown length: %q %v", got, err)
	}
	w.base.Proxy = func(*http.Request) (*url.URL, error) { return nil, errors.New("no proxy found") }
	if _, err := w.do(t.Context(), "POST", "/a", nil); err == nil || !strings.Contains(err.Error(), "no proxy found") {
		t.Errorf("a proxy: %v", err)
	}
}

// Idle connections are closed after a while.
func TestIdle(t *testing.T) {
	w := newFixture(t, echo, func(c *http1.Config) { c.Idle = 10 * time.Millisecond })
	if _, err := w.do(t.Context(), "POST", "/a", nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.closed:
	case <-time.After(time.Minute):
		t.Error("the connection is still open")
	}
}

// BenchmarkWrite measures sequential writes of an operator: with this package, with net/http over
// HTTP/1.1, and over HTTP/2. The figures include the server, which runs in the same process.
func BenchmarkWrite(b *testing.B) {
	answer := bytes.Repeat([]byte("x"), 2300)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
		_, _ = w.Write(answer)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	trusted := server.Client().Transport.(*http.Transport).TLSClientConfig
	transport := func(http2 bool, protocols ...string) *http.Transport {
		conf := trusted.Clone()
		conf.NextProtos = protocols
		return &http.Transport{TLSClientConfig: conf, DialContext: (&net.Dialer{}).DialContext, TLSHandshakeTimeout: time.Second, ForceAttemptHTTP2: http2, MaxIdleConnsPerHost: 100}
	}
	one := transport(false, "http/1.1")
	for name, rt := range map[string]http.RoundTripper{
		"exchange": http1.New(http1.Config{
			Base: one, Otherwise: one, TLS: func() *tls.Config { return one.TLSClientConfig }, Connections: 100, Idle: time.Minute, Answer: time.Minute,
		}),
		"net-http1": one,
		"net-http2": transport(true, "h2"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			client := &http.Client{Transport: rt}
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					req, _ := http.NewRequestWithContext(b.Context(), "PATCH", server.URL+"/a", strings.NewReader(`{"status":{}}`))
					resp, err := client.Do(req)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
			client.CloseIdleConnections()
		})
	}
}
