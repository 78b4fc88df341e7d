package coalesce

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"kelson.dev/apiserver/internal/turn"
)

// The turn of a computation ends with the next Write or Close of its connection, and at once
// without a connection of a Listener.
func TestCompute(t *testing.T) {
	for name, end := range map[string]func(c net.Conn, ours *conn){
		"write": func(c net.Conn, ours *conn) { ours.Write([]byte("x")) },
		"close": func(_ net.Conn, ours *conn) { ours.Close() },
		"other": func(c net.Conn, _ *conn) { Compute(c, nil) },
	} {
		turns := turn.New(1)
		taken, err := turns.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		near, far := net.Pipe()
		go io.Copy(io.Discard, near)
		c := newConn(far)
		if name == "other" {
			Compute(far, taken)
		} else {
			Compute(c, taken)
			now, cancel := context.WithDeadline(t.Context(), time.Now())
			if _, err := turns.Take(now); err == nil {
				t.Errorf("%s: the turn has ended before", name)
			}
			cancel()
		}
		end(far, c)
		soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if _, err := turns.Take(soon); err != nil {
			t.Errorf("%s: the turn continues: %v", name, err)
		}
		cancel()
		near.Close()
		far.Close()
	}
}
