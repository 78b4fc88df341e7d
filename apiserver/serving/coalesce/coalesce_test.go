package coalesce

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
	"strconv"
	"sync"
	"testing"
	"time"

	"kelson.dev/internal/require"
)

// slow is a connection whose calls take as long as the test wants.
type slow struct {
	net.Conn
	begun   chan int   // the size of each call, as it begins
	results chan error // of each call, which ends when it gets one
}

func (s *slow) Write(p []byte) (int, error) {
	s.begun <- len(p)
	return len(p), <-s.results
}

func slowConn() (*slow, *conn, context.Context) {
	s := &slow{begun: make(chan int, 10), results: make(chan error, 10)}
	c := newConn(s)
	return s, c, Context(context.Background(), c)
}

func write(t *testing.T, c *conn, size int) {
	t.Helper()
	if n, err := c.Write(make([]byte, size)); n != size || err != nil {
		t.Fatalf("wrote %d of %d bytes: %v", n, size, err)
	}
}

// Data written during a call is sent by the next call. Data written after coalescing has ended is
// sent separately, after all of it.
func TestCoalesces(t *testing.T) {
	s, c, ctx := slowConn()
	end := Begin(ctx)
	write(t, c, 100)
	if n := <-s.begun; n != 100 {
		t.Fatalf("the first call has %d bytes", n)
	}
	for range 10 {
		write(t, c, 1000)
	}
	s.results <- nil
	if n := <-s.begun; n != 10_000 {
		t.Fatalf("the second call has %d bytes", n)
	}
	end()
	ended := make(chan int)
	go func() {
		write(t, c, 7)
		close(ended)
	}()
	s.results <- nil
	if n := <-s.begun; n != 7 {
		t.Fatalf("the last call has %d bytes", n)
	}
	s.results <- nil
	<-ended
	if c.ready != nil || c.writing {
		t.Error("buffers are kept")
	}
}

// A writer that is faster than the connection blocks.
func TestIsBounded(t *testing.T) {
	s, c, ctx := slowConn()
	defer Begin(ctx)()
	write(t, c, maxQueued)
	<-s.begun
	write(t, c, maxQueued)
	var more sync.WaitGroup
	more.Go(func() { write(t, c, 1) })
	s.results <- nil
	if n := <-s.begun; n != maxQueued {
		t.Errorf("%d bytes were taken", n)
	}
	more.Wait()
	s.results <- nil
	<-s.begun
	s.results <- nil
}

// The next write returns the error of a call, and no writer blocks forever.
func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	s, c, ctx := slowConn()
	end := Begin(ctx)
	write(t, c, 1)
	<-s.begun
	write(t, c, maxQueued)
	failed := make(chan error)
	go func() {
		_, err := c.Write([]byte("waits for room"))
		failed <- err
	}()
	s.results <- broken
	if err := <-failed; !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	end()
	if _, err := c.Write([]byte("x")); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// server responds with as many bytes as the path says, from a handler that coalesces.
func server(t *testing.T) *httptest.Server {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer Begin(req.Context())()
		size, _ := strconv.Atoi(req.URL.Path[1:])
		for all := body(size); len(all) > 0; {
			n := min(len(all), 50_000)
			if _, err := w.Write(all[:n]); err != nil {
				return
			}
			all = all[n:]
		}
	}))
	srv.Listener = Listener(srv.Listener)
	srv.Config.ConnContext = Context
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

func body(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return b
}

// Clients get whole responses: over both protocols, with small windows, in parallel on one
// connection, and as the last response of a connection.
func TestWholeResponses(t *testing.T) {
	srv := server(t)
	config := srv.Client().Transport.(*http.Transport).TLSClientConfig
	for name, transport := range map[string]*http.Transport{
		"HTTP/1.1":         {DisableCompression: true},
		"HTTP/1.1, closed": {DisableCompression: true, DisableKeepAlives: true},
		"HTTP/2":           {ForceAttemptHTTP2: true},
		"HTTP/2, small windows": {ForceAttemptHTTP2: true,
			HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 16 << 10, MaxReceiveBufferPerConnection: 64 << 10}},
	} {
		t.Run(name, func(t *testing.T) {
			transport.TLSClientConfig = config.Clone()
			transport.MaxConnsPerHost = 2
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: time.Minute}
			var all sync.WaitGroup
			for _, size := range []int{0, 10, 5000, 40_000, 300_000, 3_000_000} {
				all.Go(func() {
					resp, err := client.Get(fmt.Sprint(srv.URL, "/", size))
					if err != nil {
						t.Error(err)
						return
					}
					defer resp.Body.Close()
					got, err := io.ReadAll(resp.Body)
					if err != nil || !bytes.Equal(got, body(size)) {
						t.Errorf("%d of %d bytes, or others: %v", len(got), size, err)
					}
				})
			}
			all.Wait()
		})
	}
}

// A client that disconnects during a response leaks nothing: Close of the server waits for its
// handler.
func TestClientDisconnects(t *testing.T) {
	srv := server(t)
	conn, err := tls.Dial("tcp", srv.Listener.Addr().String(), srv.Client().Transport.(*http.Transport).TLSClientConfig)
	require.NoError(t, err)
	fmt.Fprintf(conn, "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", 50_000_000)
	_, err = io.ReadFull(conn, make([]byte, 100_000))
	require.NoError(t, err)
	conn.Close()
	srv.Close()
}

func TestNoConnection(t *testing.T) {
	Begin(t.Context())() // in process
}
