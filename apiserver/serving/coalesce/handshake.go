package coalesce

import (
	"context"
	"net"
	"runtime"
)

// handshaking has an element for each handshake that computes: see Handshake.
var handshaking = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))

// Handshake waits for a turn to compute a TLS handshake on a connection of a Listener; ctx limits
// the wait. It is for tls.Config.GetConfigForClient, which is called when the client's first
// message has arrived. The turn ends when the connection is next read from, written to or closed,
// so that a connection never waits for its client while it has a turn.
//
// A handshake takes about a millisecond. Without turns, a client that opens many connections at
// once keeps all processors busy with them.
func Handshake(ctx context.Context, c net.Conn) error {
	conn, ok := c.(*conn)
	if !ok {
		return nil
	}
	select {
	case handshaking <- struct{}{}:
		conn.handshake.Store(true)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endHandshake ends the connection's turn of Handshake, if it has one.
func (c *conn) endHandshake() {
	if c.handshake.Load() && c.handshake.Swap(false) {
		<-handshaking
	}
}

// Close closes the connection.
func (c *conn) Close() error {
	c.endHandshake()
	return c.Conn.Close()
}
