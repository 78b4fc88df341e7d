//go:build unix

package coalesce

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"kelson.dev/internal/require"
)

// connected returns both ends of a TCP connection, the near one of a Listener.
func connected(t *testing.T) (near *conn, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	if far, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	accepted, err := Listener(l).Accept()
	require.NoError(t, err)
	t.Cleanup(func() {
		far.Close()
		accepted.Close()
	})
	return accepted.(*conn), far
}

// Clients that have left while they waited for a turn get none. The others do, also if they have
// sent more data.
func TestHandshakesOfClientsThatLeft(t *testing.T) {
	for _, test := range []struct {
		name  string
		leave func(near *conn, far net.Conn)
		gone  bool
	}{
		{"waiting", func(*conn, net.Conn) {}, false},
		{"sent", func(_ *conn, far net.Conn) { _, _ = far.Write([]byte("more")) }, false},
		{"closed", func(_ *conn, far net.Conn) { far.Close() }, true},
		{"reset", func(_ *conn, far net.Conn) {
			_ = far.(*net.TCPConn).SetLinger(0)
			far.Close()
		}, true},
		{"too late", func(near *conn, _ net.Conn) { _ = near.SetReadDeadline(time.Unix(1, 0)) }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			free := handshaking.free
			near, far := connected(t)
			test.leave(near, far)
			if err := Handshake(t.Context(), near); (err != nil) != test.gone {
				t.Errorf("got %v", err)
			}
			near.Close()
			if handshaking.free != free {
				t.Error("a turn is lost")
			}
		})
	}
}

// Connections take turns to send large responses; other responses are sent immediately. A
// connection whose peer does not read has no turn.
func TestSendsInTurns(t *testing.T) {
	large, largePeer := connected(t)
	small, smallPeer := connected(t)
	large.count(1)
	for range cap(sending) {
		sending <- struct{}{}
	}
	release := func() {
		for range cap(sending) {
			<-sending
		}
	}
	write(t, large, 100)
	write(t, small, 100)
	if _, err := io.ReadFull(smallPeer, make([]byte, 100)); err != nil {
		t.Error(err)
	}
	_ = largePeer.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := largePeer.Read(make([]byte, 100)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("sent without a turn: %d bytes, %v", n, err)
	}
	release()
	_ = largePeer.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadFull(largePeer, make([]byte, 100)); err != nil {
		t.Error(err)
	}

	const total = 64 << 20 // more than the system's buffers
	go func() {
		for range total / maxQueued {
			if _, err := large.Write(make([]byte, maxQueued)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	_, err := io.ReadFull(largePeer, make([]byte, maxQueued))
	require.NoError(t, err)
	for range cap(sending) { // gets every turn, because none is kept
		select {
		case sending <- struct{}{}:
		case <-time.After(time.Minute):
			t.Fatal("a connection that waits for its peer has a turn")
		}
	}
	release()
	if _, err := io.CopyN(io.Discard, largePeer, total-maxQueued); err != nil {
		t.Error(err)
	}
}
