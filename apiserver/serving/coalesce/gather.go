// Package coalesce sends large answers in few calls of the operating system. TLS makes records of 16 KB and a call of each; on a connection
// whose writer has asked for it, the records that are made during one call go together with the next.
//
//	server := http.Server{ConnContext: gather.Context}
//	server.ServeTLS(gather.Listener(listener), "", "")
//	…
//	defer gather.Begin(req.Context())() // in a handler that has much to send
//
// Nothing is kept back while the connection is free. So it does not matter who waits for what: HTTP/2, whose clients open no window before
// they have seen what was sent, can't come to a standstill.
package coalesce

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// most is how much lies ready for the next call; who has more must wait.
const most = 128 << 10

// mostGathering bounds how many connections gather at a time, and with them the memory that clients which do not read hold: 16 MiB.
const mostGathering = 64

var gathering atomic.Int32

// buffers are used in pairs, as long as a connection is written to.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, most); return &b }}

// Listener accepts connections that can gather.
func Listener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newConn(accepted), nil
}

type contextKey struct{}

// Context is for http.Server.ConnContext: handlers find their connection by it.
func Context(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	if conn, ok := c.(*conn); ok {
		return context.WithValue(ctx, contextKey{}, conn)
	}
	return ctx
}

// Begin lets the connection of a request gather until the function that it returns is called. Where there is none it does nothing.
func Begin(ctx context.Context) (end func()) {
	c, ok := ctx.Value(contextKey{}).(*conn)
	if !ok {
		return func() {}
	}
	c.count(1)
	return func() { c.count(-1) }
}

// Bound limits the time of a call of Write on a connection of a Listener. A call that takes longer than stall fails, and with it the
// connection; calls that take less than half as long do not. It must be called before the first call of Write.
func Bound(c net.Conn, stall time.Duration) {
	if c, ok := c.(*conn); ok {
		c.stall = stall
	}
}

// conn is a connection below TLS, which makes one call of Write at a time.
type conn struct {
	net.Conn
	mu      sync.Mutex
	free    *sync.Cond // there is room, or writing is over
	writers int        // those who have asked for gathering
	writing bool       // a goroutine writes until nothing is ready
	ready   *[]byte    // what its next call will send
	err     error      // of a call: the connection is of no more use

	stall time.Duration // of a call of Write; 0: any
	renew atomic.Int64  // when the deadline must be set again, in Unix nanoseconds
}

func newConn(inner net.Conn) *conn {
	c := &conn{Conn: inner}
	c.free = sync.NewCond(&c.mu)
	return c
}

func (c *conn) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writers += n
}

// Write sends p, or sees to it that it is sent.
func (c *conn) Write(p []byte) (int, error) {
	taken, err := c.take(p)
	switch {
	case err != nil:
		return 0, err
	case taken:
		return len(p), nil
	}
	return c.send(p)
}

// send makes a call. Setting a deadline for each would cost a tenth of it: one is set when less than half of the time is left.
func (c *conn) send(p []byte) (int, error) {
	if c.stall > 0 {
		if now := time.Now(); now.UnixNano() >= c.renew.Load() {
			_ = c.Conn.SetWriteDeadline(now.Add(c.stall))
			c.renew.Store(now.Add(c.stall / 2).UnixNano())
		}
	}
	return c.Conn.Write(p)
}

// SetWriteDeadline sets a deadline that counts beside that of Bound: it is replaced only after it has passed, and a zero time lifts it
// until the next call of Write.
func (c *conn) SetWriteDeadline(at time.Time) error {
	var renew int64
	if !at.IsZero() {
		renew = at.UnixNano()
	}
	c.renew.Store(renew)
	return c.Conn.SetWriteDeadline(at)
}

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (c *conn) SetDeadline(at time.Time) error {
	if err := c.SetWriteDeadline(at); err != nil {
		return err
	}
	return c.Conn.SetReadDeadline(at)
}

// take makes p ready for the next call, when there is somebody who gathers. When there is nobody it waits for the end of what is under way:
// the record by which TLS ends, and Close after it, must come last.
func (c *conn) take(p []byte) (taken bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gather := c.writers > 0 && len(p) <= most
	for c.writing && c.err == nil && (!gather || len(*c.ready)+len(p) > most) {
		c.free.Wait()
	}
	if c.err != nil || !gather {
		return false, c.err
	}
	if !c.writing {
		if gathering.Add(1) > mostGathering {
			gathering.Add(-1)
			return false, nil
		}
		c.writing, c.ready = true, buffers.Get().(*[]byte)
		go c.write()
	}
	*c.ready = append(*c.ready, p...)
	return true, nil
}

// write makes calls as long as there is something ready.
func (c *conn) write() {
	c.mu.Lock()
	defer c.mu.Unlock()
	spare := buffers.Get().(*[]byte)
	for len(*c.ready) > 0 && c.err == nil {
		now := c.ready
		c.ready = spare
		c.free.Signal()
		c.mu.Unlock()
		_, err := c.send(*now)
		c.mu.Lock()
		c.err = err
		*now = (*now)[:0]
		spare = now
	}
	*c.ready = (*c.ready)[:0]
	buffers.Put(c.ready)
	buffers.Put(spare)
	c.writing, c.ready = false, nil
	gathering.Add(-1)
	c.free.Signal()
}
