package serving_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/attacktest/clients"
	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/serving"
	"kelson.dev/internal/require"
)

// victim is a server with few seats and short deadlines, and an ordinary client of it. Its
// resources respond with a megabyte, with more than the buffers of a connection hold, or with the
// length of the request's body.
type victim struct {
	*serving.Server
	chain   *filters.Chain
	tls     *tls.Config
	client  *http.Client
	aborted atomic.Int32 // endless responses that failed
	// last is a part of the head of the last request for a small response.
	last atomic.Pointer[weak.Pointer[url.URL]]
}

const (
	seats       = 8
	endlessSize = 64 << 20
)

func newVictim(t *testing.T, timeout, stall time.Duration) *victim {
	authority, err := pki.NewAuthority("test")
	require.NoError(t, err)
	listener, err := serving.Listen("127.0.0.1:0")
	require.NoError(t, err)
	large := bytes.Repeat([]byte("x"), 1<<20)
	v := &victim{tls: &tls.Config{RootCAs: authority.Pool()}}
	c := filters.New(filters.Config{
		// The attacker is authenticated: the server closes connections of anonymous clients after a
		// response.
		Authenticator: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &user.DefaultInfo{Name: "ann",
				Groups: []string{user.AllAuthenticated}}}, true, nil
		}),
		MaxInFlight: seats, MaxMutatingInFlight: seats, Timeout: timeout, Stall: stall,
		Resources: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			switch {
			case req.Method != http.MethodGet:
				body, err := io.ReadAll(req.Body)
				if err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
					return
				}
				fmt.Fprint(w, len(body))
			case strings.HasSuffix(req.URL.Path, "/large"):
				w.Write(large)
			case strings.HasSuffix(req.URL.Path, "/endless"):
				for range endlessSize / len(large) {
					if _, err := w.Write(large); err != nil {
						v.aborted.Add(1)
						break
					}
				}
			default:
				part := weak.Make(req.URL)
				v.last.Store(&part)
				io.WriteString(w, "small")
			}
		}),
	})
	server, err := serving.New(serving.Config{Listener: listener, Handler: c,
		Certificate: authority.Serving("127.0.0.1"), Drain: c.Shutdown, Grace: time.Second})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	transport := &http.Transport{TLSClientConfig: v.tls.Clone(), ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	v.Server, v.chain, v.client = server, c, &http.Client{Transport: transport}
	return v
}

// dial opens the attacker's connection.
func (v *victim) dial(t *testing.T) *clients.Conn {
	c, err := clients.Dial(v.Addr().String(), v.tls, clients.NoWindow)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// openHTTP1 sends a request of the attacker on a new connection.
func (v *victim) openHTTP1(t *testing.T, request string) *tls.Conn {
	t.Helper()
	config := v.tls.Clone()
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", v.Addr().String(), config)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	return conn
}

// do sends a request of a tenant.
func (v *victim) do(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), method, v.URL()+path, strings.NewReader(body))
	resp, err := v.client.Do(req)
	require.NoError(t, err)
	answer := require.Body(t, resp)
	return resp.StatusCode, string(answer)
}

// checkServes checks that the server serves probes and tenants.
func (v *victim) checkServes(t *testing.T) {
	t.Helper()
	for range 5 {
		for _, path := range []string{"/readyz", "/livez", "/healthz/ping", tenants} {
			if code, answer := v.do(t, "GET", path, ""); code != 200 {
				t.Errorf("GET %s: %d %s", path, code, answer)
			}
		}
		if code, answer := v.do(t, "POST", tenants, "body"); code != 200 || answer != "4" {
			t.Errorf("POST: %d %s", code, answer)
		}
	}
}

const tenants = "/api/v1/namespaces/tenant/configmaps"

func request(t *testing.T, c *clients.Conn, method, path string, end bool, header ...string) uint32 {
	t.Helper()
	id, err := c.Request(method, path, end, header...)
	require.NoError(t, err)
	return id
}

// Clients that request health and never read the responses take no seats, however long the
// responses are.
func TestUnreadHealthTakesNoSeats(t *testing.T) {
	v := newVictim(t, time.Minute, time.Minute)
	query := "?verbose" + strings.Repeat("&exclude=abcdefgh", 2000)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 4 {
		c := v.dial(t)
		for range seats {
			id := request(t, c, "GET", "/healthz"+query, true)
			if code, err := c.Status(ctx, id); code != 200 || err != nil {
				t.Fatal(code, err)
			}
		}
	}
	v.checkServes(t)
}

// A response that is not read ends at the deadline, with its stream, and its seat becomes free.
func TestUnreadResponsesEnd(t *testing.T) {
	v := newVictim(t, time.Second, 500*time.Millisecond)
	c := v.dial(t)
	var ids []uint32
	for range 2 * seats {
		ids = append(ids, request(t, c, "GET", "/api/v1/namespaces/x/configmaps/large", true))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, id := range ids {
		if code, err := c.Status(ctx, id); code != 200 && code != 429 || err != nil {
			t.Errorf("stream %d: %d %v", id, code, err)
		}
	}
	if code, answer := v.do(t, "GET", "/readyz", ""); code != 200 {
		t.Errorf("GET /readyz: %d %s", code, answer)
	}
	for _, id := range ids {
		if code, _ := c.Status(ctx, id); code != 200 {
			continue // refused, and not read either
		}
		if early, err := c.Ended(ctx, id); err != nil || !early {
			t.Errorf("stream %d: ended early: %v, %v", id, early, err)
		}
	}
	v.checkServes(t)
}

// A served request whose client does not read the response takes no memory for its head.
func TestUnreadResponsesKeepNoHeads(t *testing.T) {
	v := newVictim(t, time.Minute, time.Minute)
	c := v.dial(t)
	id := request(t, c, "GET", tenants, true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if code, err := c.Status(ctx, id); code != 200 || err != nil {
		t.Fatal(code, err)
	}
	for v.last.Load().Value() != nil {
		if ctx.Err() != nil {
			t.Fatal("the server keeps the head")
		}
		runtime.GC()
	}
	if n := c.Received(id); n != 0 {
		t.Errorf("the client has read %d bytes", n)
	}
}

// A watch whose client does not read does not delay the end of the server.
func TestUnreadWatchesEndAtShutdown(t *testing.T) {
	v := newVictim(t, time.Minute, time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := v.dial(t)
	id := request(t, c, "GET", "/api/v1/watch/namespaces/x/configmaps/endless", true)
	if code, err := c.Status(ctx, id); code != 200 || err != nil {
		t.Fatal(code, err)
	}
	conn := v.openHTTP1(t, "GET /api/v1/watch/namespaces/x/configmaps/endless HTTP/1.1\r\nHost: x\r\n\r\n")
	_, err := io.ReadFull(conn, make([]byte, len("HTTP/1.1 200 OK")))
	require.NoError(t, err)
	if err := v.chain.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// Over HTTP/1.1 too, a response that is not read ends at the deadline, with its connection, and its
// seat becomes free.
func TestUnreadResponsesEndHTTP1(t *testing.T) {
	v := newVictim(t, time.Second, 500*time.Millisecond)
	const request = "GET /api/v1/namespaces/x/configmaps/endless HTTP/1.1\r\nHost: x\r\n\r\n"
	var conns []*tls.Conn
	for range seats {
		conns = append(conns, v.openHTTP1(t, request))
	}
	for _, conn := range conns { // until all requests have a seat
		_, err := io.ReadFull(conn, make([]byte, len("HTTP/1.1 200 OK")))
		require.NoError(t, err)
	}
	if code, answer := v.do(t, "GET", "/readyz", ""); code != 200 {
		t.Errorf("GET /readyz: %d %s", code, answer)
	}
	for deadline := time.Now().Add(time.Minute); v.aborted.Load() < seats; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d responses have ended", v.aborted.Load(), seats)
		}
	}
	v.checkServes(t)
	for _, conn := range conns {
		conn.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := io.Copy(io.Discard, conn); n >= endlessSize || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes, %v: the connection is still open", n, err)
		}
	}
}

// Bodies that never arrive take no seats, and their streams end.
func TestMissingBodiesTakeNoSeats(t *testing.T) {
	v := newVictim(t, 10*time.Second, 2*time.Second)
	c := v.dial(t)
	var ids []uint32
	for i := range 4 * seats {
		length := []string{}
		if i%2 == 0 {
			length = []string{"content-length", "3000000"}
		}
		ids = append(ids, request(t, c, "POST", "/api/v1/namespaces/x/configmaps", false,
			append(length, "content-type", "application/json")...))
	}
	require.NoError(t, c.Data(ids[0], []byte("{"), false))
	v.checkServes(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, id := range ids {
		if code, err := c.Status(ctx, id); code != 504 || err != nil {
			t.Errorf("stream %d: %d %v", id, code, err)
		}
	}
	v.checkServes(t)
}

// Over HTTP/1.1 too, bodies that never arrive take no seats, and their requests end.
func TestSlowHTTP1(t *testing.T) {
	v := newVictim(t, 2*time.Second, time.Second)
	var conns []*tls.Conn
	for range 2 * seats {
		conns = append(conns, v.openHTTP1(t, "POST "+tenants+" HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"))
	}
	v.checkServes(t)
	for _, conn := range conns {
		conn.SetReadDeadline(time.Now().Add(time.Minute))
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 504 ") ||
			!strings.Contains(string(answer), `"reason":"Timeout"`) {
			t.Errorf("%v: %s", err, answer)
		}
	}
	// If the client sends Expect: 100-continue, the server requests the body.
	conn := v.openHTTP1(t, "POST "+tenants+" HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
	head := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(conn, head); err != nil || !strings.HasPrefix(string(head), "HTTP/1.1 100 ") {
		t.Fatalf("%v: %s", err, head)
	}
	io.WriteString(conn, "abc")
	if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") ||
		!strings.HasSuffix(string(answer), "3") {
		t.Errorf("%v: %s", err, answer)
	}
}
