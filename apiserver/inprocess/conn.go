package inprocess

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Dial opens a connection to a handler, for protocols that request and response can't carry:
// WebSocket, SPDY, tunnels. The other end is an HTTP/1 server for this one connection. The
// connection ends when either side closes it or ctx ends; until then it has the goroutines of a
// server connection.
//
//	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
//		return inprocess.Dial(ctx, handler), nil
//	}}
func Dial(ctx context.Context, h http.Handler) net.Conn {
	near, far := net.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() {
		near.Close()
		far.Close()
	})
	server := &http.Server{Handler: h, BaseContext: func(net.Listener) context.Context { return ctx }}
	one := &listener{conn: make(chan net.Conn, 1), done: make(chan struct{})}
	one.conn <- &watched{Conn: far, closed: func() {
		stop()
		cancel()
		one.Close()
	}}
	go func() { _ = server.Serve(one) }() // returns when the connection is closed
	return near
}

// listener accepts one connection.
type listener struct {
	conn chan net.Conn
	done chan struct{}
	once sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (*listener) Addr() net.Addr { return address{} }

// address is the address of a pipe.
type address struct{}

func (address) Network() string { return "pipe" }
func (address) String() string  { return "pipe" }

// watched is a connection that calls closed when it is closed.
type watched struct {
	net.Conn
	closed func()
	once   sync.Once
}

func (w *watched) Close() error {
	err := w.Conn.Close()
	w.once.Do(w.closed)
	return err
}
