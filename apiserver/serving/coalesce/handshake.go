package coalesce

import (
	"context"
	"net"
	"runtime"
	"sync"
)

// handshaking has the turns of all connections: see Handshake.
var handshaking = &turns{free: max(1, runtime.GOMAXPROCS(0)-1)}

// turns lets a number of handshakes compute at once, in the order in which they began.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting []waiter
}

// waiter is a handshake that waits for its turn. granted gets true with the turn, and false if the
// client has left. It has room for one value.
type waiter struct {
	conn    *conn
	granted chan bool
}

// Handshake waits for a turn to compute a TLS handshake on a connection of a Listener; ctx limits
// the wait. It is for tls.Config.GetConfigForClient, which is called when the client's first
// message has arrived. The turn ends when the connection is next read from, written to or closed,
// so that a connection never waits for its client while it has a turn.
//
// A handshake takes about a millisecond. Without turns, a client that opens many connections at
// once keeps all processors busy with them. If the client leaves while it waits, Handshake returns
// net.ErrClosed and takes no turn, so that such connections do not delay other clients.
func Handshake(ctx context.Context, c net.Conn) error {
	conn, ok := c.(*conn)
	if !ok {
		return nil
	}
	w := waiter{conn, make(chan bool, 1)}
	handshaking.add(w)
	select {
	case turn := <-w.granted:
		if !turn {
			return net.ErrClosed
		}
		conn.handshake.Store(true)
		return nil
	case <-ctx.Done():
		go func() {
			if <-w.granted {
				handshaking.end()
			}
		}()
		return ctx.Err()
	}
}

// add adds a handshake to the queue.
func (t *turns) add(w waiter) {
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.mu.Unlock()
	t.grant(0)
}

// end ends a turn.
func (t *turns) end() { t.grant(1) }

// grant adds free turns, and gives turns to the handshakes at the head of the queue. It removes
// those of clients that have left here, because waking their goroutines would take much longer.
func (t *turns) grant(freed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free += freed
	for t.free > 0 && len(t.waiting) > 0 {
		w := t.waiting[0]
		t.waiting[0] = waiter{}
		t.waiting = t.waiting[1:]
		stays := w.conn.raw == nil || !gone(w.conn.raw)
		if stays {
			t.free--
		}
		w.granted <- stays
	}
}

// endHandshake ends the connection's turn of Handshake, if it has one.
func (c *conn) endHandshake() {
	if c.handshake.Load() && c.handshake.Swap(false) {
		handshaking.end()
	}
}

// Close closes the connection.
func (c *conn) Close() error {
	c.endHandshake()
	return c.Conn.Close()
}
