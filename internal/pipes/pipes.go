// Package pipes has a listener for tests whose connections are pipes within the process, so that
// servers and clients run in virtual time.
package pipes

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// Listener accepts the connections that Dial makes. New returns one.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

// New returns a listener.
func New() *Listener {
	closed := make(chan struct{})
	return &Listener{make(chan net.Conn), closed, sync.OnceFunc(func() { close(closed) })}
}

// Accept waits for a connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial. It may be called more than once.
func (l *Listener) Close() error { l.close(); return nil }

// Addr returns an address of the loopback.
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

// Dial connects to the listener, whatever the address, and waits until it accepts.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Serve serves a handler until stop is called, which waits for the server and may be called more
// than once. Without config, it serves without TLS.
func Serve(handler http.Handler, config *tls.Config) (l *Listener, stop func()) {
	l = New()
	server := &http.Server{Handler: handler, TLSConfig: config, ErrorLog: log.New(io.Discard, "", 0)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if config == nil {
			_ = server.Serve(l)
		} else {
			_ = server.ServeTLS(l, "", "")
		}
	}()
	return l, sync.OnceFunc(func() {
		server.Close()
		l.Close()
		<-ended
	})
}
