package serving

import (
	"errors"
	"net"
	"testing"

	"kelson.dev/internal/require"
)

// A listener accepts a connection beyond its limit when another one is closed. Closing the listener
// ends the wait.
func TestBoundedConnections(t *testing.T) {
	inner, err := Listen("127.0.0.1:0")
	require.NoError(t, err)
	listener := newBounded(inner, 2)
	defer listener.Close()
	accepted := make(chan net.Conn)
	ended := make(chan error, 1)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- conn
		}
	}()
	for range 3 {
		conn, err := net.Dial("tcp", inner.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
	}
	first, second := <-accepted, <-accepted
	defer second.Close()
	if n := len(listener.open); n != 2 {
		t.Fatalf("%d connections are open", n)
	}
	first.Close()
	first.Close()
	third := <-accepted
	defer third.Close()
	if n := len(listener.open); n != 2 {
		t.Errorf("%d connections are open", n)
	}
	listener.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
}
