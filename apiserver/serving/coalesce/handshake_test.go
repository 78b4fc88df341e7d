package coalesce

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/require"
)

// Handshakes take turns. A turn ends with the next read, write or close, also if they block.
func TestHandshake(t *testing.T) {
	for name, end := range map[string]func(net.Conn){
		"write": func(c net.Conn) { _, _ = c.Write([]byte("hello")) },
		"read":  func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) },
		"close": func(c net.Conn) { _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := handshaking
				handshaking = &turns{free: 1}
				defer func() { handshaking = all }()
				near, far := net.Pipe()
				defer near.Close()
				first, second := newConn(far), newConn(near)
				require.NoError(t, Handshake(t.Context(), first))
				late, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := Handshake(late, second); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("two handshakes at once: %v", err)
				}
				go end(first)
				next, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := Handshake(next, second); err != nil {
					t.Errorf("the next handshake: %v", err)
				}
				_ = second.Close()
				_ = second.Close() // ends no other connection's turn
				_ = first.Close()
				if synctest.Wait(); handshaking.free != 1 {
					t.Error("a turn is lost")
				}
			})
		})
	}
	if err := Handshake(t.Context(), &net.TCPConn{}); err != nil {
		t.Error(err)
	}
}
