// Package coalesce sends large responses with few system calls. TLS splits data into records of 16
// KB and writes each with a separate call. On a connection whose handler has requested coalescing,
// the records produced during one system call are sent together by the next one.
//
//	server := http.Server{ConnContext: coalesce.Context}
//	server.ServeTLS(coalesce.Listener(listener), "", "")
//	…
//	defer coalesce.Begin(req.Context())() // in a handler with a large response
//
// Nothing is delayed while no call is in progress. Therefore coalescing can't cause a deadlock, not
// even with HTTP/2 clients, which extend the flow-control window only after they have received
// data.
//
// # Fairness
//
// Go lets a goroutine run for ten milliseconds before another one gets its processor. A short
// request would wait that long for each connection that encrypts a large response, or that decodes
// many headers. Such connections therefore let other goroutines run after every 128 KiB, which
// takes some ten microseconds, and after each large read.
//
// That is not enough, because Go polls the network only every ten milliseconds while goroutines
// that only let others run keep all processors busy. Only a limited number of connections send
// coalesced data at the same time, so that a processor remains free. Goroutines of connections that
// wait for their turn are not runnable.
package coalesce

import (
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// maxQueued is the maximum size of the data that waits for the next call. Further writes block.
const maxQueued = 128 << 10

// largeRead is the size in bytes of reads that carry more than a short request.
const largeRead = 4 << 10

// maxGathering limits how many connections coalesce at a time, and with them the memory that
// clients which do not read can hold: 16 MiB.
const maxGathering = 64

var gathering atomic.Int32

// sending has an element for each system call that sends coalesced data: see Fairness.
var sending = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))

// buffers are used in pairs while a connection is written to.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, maxQueued); return &b }}

// Listener returns a listener whose connections can coalesce writes.
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

// Context is for http.Server.ConnContext. It lets Begin find the connection of a request.
func Context(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	if conn, ok := c.(*conn); ok {
		return context.WithValue(ctx, contextKey{}, conn)
	}
	return ctx
}

// Begin makes the connection of a request coalesce writes until the returned function is called.
// Without a connection of a Listener it does nothing.
func Begin(ctx context.Context) (end func()) {
	c, ok := ctx.Value(contextKey{}).(*conn)
	if !ok {
		return func() {}
	}
	c.count(1)
	return func() { c.count(-1) }
}

// Bound limits the duration of a Write on a connection of a Listener. If a Write takes longer than
// stall, the connection fails. A Write that takes less than half of stall never makes the
// connection fail. Bound must be called before the first Write.
func Bound(c net.Conn, stall time.Duration) {
	if c, ok := c.(*conn); ok {
		c.stall = stall
	}
}

// conn is a connection below TLS, which calls Write from one goroutine at a time.
type conn struct {
	net.Conn
	raw     syscall.RawConn // raw connection of Conn; nil: it has none
	mu      sync.Mutex
	free    *sync.Cond // signaled when there is room or writing has ended
	writers int        // handlers that have requested coalescing
	writing bool       // the goroutine of method write is running
	ready   *[]byte    // data for its next call
	// unyielded is how much was queued since Write last let others run. Only Write uses it.
	unyielded int
	err       error // error of a failed call; the connection is unusable

	handshake atomic.Bool // it has a turn of Handshake

	stall time.Duration // maximum duration of a Write; 0: no limit
	renew atomic.Int64  // when the deadline must be set again, in Unix nanoseconds
}

func newConn(inner net.Conn) *conn {
	c := &conn{Conn: inner, raw: rawConn(inner)}
	c.free = sync.NewCond(&c.mu)
	return c
}

func (c *conn) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writers += n
}

// Write sends p, or queues it for the next call.
func (c *conn) Write(p []byte) (int, error) {
	c.endHandshake()
	taken, err := c.take(p)
	switch {
	case err != nil:
		return 0, err
	case taken:
		if c.unyielded += len(p); c.unyielded >= maxQueued {
			c.unyielded = 0
			runtime.Gosched() // see Fairness
		}
		return len(p), nil
	}
	return c.send(p)
}

// send writes p with one call.
func (c *conn) send(p []byte) (int, error) {
	c.renewDeadline()
	return c.Conn.Write(p)
}

// sendQueued writes p, which is a part of a large response. It takes turns with other connections.
func (c *conn) sendQueued(p []byte) error {
	c.renewDeadline()
	if c.raw != nil {
		return sendAll(c.raw, p)
	}
	_, err := c.Conn.Write(p)
	return err
}

// renewDeadline sets the deadline of Bound. That costs a tenth of a call, so it is set only when
// less than half of the time is left.
func (c *conn) renewDeadline() {
	if c.stall == 0 {
		return
	}
	if now := time.Now(); now.UnixNano() >= c.renew.Load() {
		_ = c.Conn.SetWriteDeadline(now.Add(c.stall))
		c.renew.Store(now.Add(c.stall / 2).UnixNano())
	}
}

// SetWriteDeadline sets a deadline. The deadline of Bound replaces it only after it has passed. A
// zero time removes the deadline until the next Write.
func (c *conn) SetWriteDeadline(at time.Time) error {
	var renew int64
	if !at.IsZero() {
		renew = at.UnixNano()
	}
	c.renew.Store(renew)
	return c.Conn.SetWriteDeadline(at)
}

// SetDeadline calls SetReadDeadline and SetWriteDeadline.
func (c *conn) SetDeadline(at time.Time) error {
	if err := c.SetWriteDeadline(at); err != nil {
		return err
	}
	return c.Conn.SetReadDeadline(at)
}

// Read reads. After a large read it lets others run: see Fairness.
func (c *conn) Read(p []byte) (int, error) {
	c.endHandshake()
	n, err := c.Conn.Read(p)
	if n >= largeRead {
		runtime.Gosched()
	}
	return n, err
}

// take queues p for the next call if a handler has requested coalescing. Otherwise it waits until
// queued data is sent, because the final record of TLS, and Close after it, must come last.
func (c *conn) take(p []byte) (taken bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gather := c.writers > 0 && len(p) <= maxQueued
	for c.writing && c.err == nil && (!gather || len(*c.ready)+len(p) > maxQueued) {
		c.free.Wait()
	}
	if c.err != nil || !gather {
		return false, c.err
	}
	if !c.writing {
		if gathering.Add(1) > maxGathering {
			gathering.Add(-1)
			return false, nil
		}
		c.writing, c.ready = true, buffers.Get().(*[]byte)
		go c.write()
	}
	*c.ready = append(*c.ready, p...)
	return true, nil
}

// write sends queued data until the queue is empty.
func (c *conn) write() {
	c.mu.Lock()
	defer c.mu.Unlock()
	spare := buffers.Get().(*[]byte)
	for len(*c.ready) > 0 && c.err == nil {
		batch := c.ready
		c.ready = spare
		c.free.Signal()
		c.mu.Unlock()
		err := c.sendQueued(*batch)
		c.mu.Lock()
		c.err = err
		*batch = (*batch)[:0]
		spare = batch
	}
	*c.ready = (*c.ready)[:0]
	buffers.Put(c.ready)
	buffers.Put(spare)
	c.writing, c.ready = false, nil
	gathering.Add(-1)
	c.free.Signal()
}
