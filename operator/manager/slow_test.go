package manager

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/pipes"
	"kelson.dev/internal/require"
)

// Clients that send or read too slowly, or send large headers, lose their connection.
func TestSlowClients(t *testing.T) {
	for _, test := range []struct {
		name, request string
		reads         bool
		within        time.Duration
	}{
		{"no request", "", true, readWithin},
		{"half a header", "GET / HTTP/1.1\r\nHost: a\r\n", true, readWithin},
		{"half a body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf", true, readWithin},
		{"unread response", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", false, writeWithin},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took := connectionLasts(t, test.request, test.reads)
				if took > test.within+5*time.Second {
					t.Errorf("the connection ended after %s, want %s", took, test.within)
				}
			})
		})
	}
}

// connectionLasts sends a part of a request and returns when the server closes the connection.
func connectionLasts(t *testing.T, request string, reads bool) time.Duration {
	t.Helper()
	listener := pipes.New()
	large := strings.Repeat("x", 1<<20)
	s := &server{listener: listener, handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body) // fails if the body does not arrive
		_, _ = io.WriteString(w, large)      // fails if the client does not read
	})}
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context()) }()
	ours, err := listener.Dial(t.Context(), "", "")
	require.NoError(t, err)
	began := time.Now()
	go func() { _, _ = io.WriteString(ours, request) }()
	if reads {
		_, _ = io.Copy(io.Discard, ours)
	} else {
		time.Sleep(2 * writeWithin)
		_ = ours.SetReadDeadline(time.Now().Add(time.Hour))
		// if the connection has ended, this reads the rest immediately
		began = time.Now().Add(-writeWithin)
		_, _ = io.Copy(io.Discard, ours)
	}
	took := time.Since(began)
	ours.Close()
	t.Cleanup(func() {
		if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return took
}

// A request with larger headers than any client of the manager sends is refused.
func TestLargeHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := pipes.New()
		s := &server{listener: listener, handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		done := make(chan error, 1)
		go func() { done <- s.Run(t.Context()) }()
		t.Cleanup(func() { <-done })
		ours, err := listener.Dial(t.Context(), "", "")
		require.NoError(t, err)
		go func() {
			_, _ = io.WriteString(ours, "GET / HTTP/1.1\r\nHost: a\r\nX-Large: "+strings.Repeat("x", 2*maxHeader))
		}()
		answer := make([]byte, 12)
		if _, err := io.ReadFull(ours, answer); err != nil || string(answer) != "HTTP/1.1 431" {
			t.Errorf("%q, %v; want 431", answer, err)
		}
		ours.Close()
	})
}
