// Package http1 sends small requests over its own HTTP/1.1 connections, and reads responses in the
// goroutine of the caller.
//
// net/http uses two goroutines per connection, so that a response can arrive before the request is
// sent, and passes each request and response between them. For the writes of an operator, a few
// kilobytes with responses of the same size, this takes a third of the CPU time that client and
// server together need for a write (BenchmarkWrite). Here a request owns a connection until its
// response is read.
//
// net/http handles everything else. A [Transport] wraps an http.Transport and dials like it. It
// passes these requests to the http.Transport: reads (which are compressed, and retried if the
// connection was closed), requests through proxies, upgrades, and bodies of unknown length.
//
// A server can close an idle connection. A write sent over such a connection would be lost with an
// unknown outcome, so the package asks the operating system for the state of a connection before it
// reuses it. If that is not possible, because the connection is not a socket (such as a tunnel) or
// the system is not a Unix, net/http handles all requests: its goroutines read from idle
// connections.
package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Config configures a Transport. All fields are required.
type Config struct {
	// Base handles the requests that this Transport does not. Its Proxy and DialContext are used
	// for both.
	Base *http.Transport
	// Otherwise is called instead of Base, which it wraps.
	Otherwise http.RoundTripper
	// TLS returns the configuration for a new connection.
	TLS func() *tls.Config
	// Connections is the maximum number of connections; further requests wait.
	Connections int
	// Idle is how long an unused connection is kept.
	Idle time.Duration
	// Answer is how long a server may take to read a request and begin its response.
	Answer time.Duration
}

// Transport is an http.RoundTripper, safe for concurrent use.
type Transport struct {
	cfg   Config
	slots chan struct{}

	mu    sync.Mutex
	idle  []*connection // most recently used last
	timer *time.Timer   // closes connections that were idle too long; nil while none is idle

	unobservable atomic.Bool // the system can't tell whether the server has closed a connection
}

// New returns a transport. It does nothing until it is used.
func New(cfg Config) *Transport {
	return &Transport{cfg: cfg, slots: make(chan struct{}, cfg.Connections)}
}

// WrappedRoundTripper returns the transport for all other requests.
func (t *Transport) WrappedRoundTripper() http.RoundTripper { return t.cfg.Otherwise }

// RoundTrip sends a request and reads its response. The connection can be reused after the body was
// read to its end; closing the body earlier closes the connection.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !t.isOurs(req) {
		return t.cfg.Otherwise.RoundTrip(req)
	}
	if req.Body != nil {
		defer req.Body.Close()
	}
	ctx := req.Context()
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c, err := t.connect(ctx, req.URL)
	if err != nil {
		<-t.slots
		return nil, err
	}
	c.watch(ctx)
	late := time.AfterFunc(t.cfg.Answer, c.interrupt)
	resp, err := c.exchange(req)
	inTime := late.Stop()
	if err != nil {
		t.release(c, false)
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case !inTime:
			err = fmt.Errorf("the server did not respond within %v: %w", t.cfg.Answer, err)
		}
		return nil, err
	}
	resp.Close = resp.Close || !inTime // the connection is interrupted
	if resp.Body == http.NoBody {
		t.release(c, !resp.Close)
		return resp, nil
	}
	resp.Body = &body{ReadCloser: resp.Body, left: resp.ContentLength, keep: !resp.Close, transport: t, connection: c}
	return resp, nil
}

// CloseIdleConnections closes the unused connections.
func (t *Transport) CloseIdleConnections() {
	t.expire(0)
	t.cfg.Base.CloseIdleConnections()
}

func (t *Transport) isOurs(req *http.Request) bool {
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return false
	}
	if t.unobservable.Load() {
		return false
	}
	if req.ContentLength < 0 || req.Body != nil && req.Body != http.NoBody && req.ContentLength == 0 || len(req.TransferEncoding) > 0 || len(req.Trailer) > 0 ||
		len(req.Header["Upgrade"]) > 0 || len(req.Header["Expect"]) > 0 {
		return false
	}
	if t.cfg.Base.Proxy != nil {
		if proxy, err := t.cfg.Base.Proxy(req); proxy != nil || err != nil {
			return false
		}
	}
	return true
}

// connect returns an idle connection to the server of a URL, or a new one.
func (t *Transport) connect(ctx context.Context, to *url.URL) (*connection, error) {
	address := to.Host
	if to.Port() == "" {
		address = net.JoinHostPort(to.Hostname(), map[string]string{"http": "80", "https": "443"}[to.Scheme])
	}
	for {
		c := t.takeIdle(to.Scheme, address)
		if c == nil {
			break
		}
		if isQuiet(c.socket) {
			return c, nil
		}
		c.conn.Close()
	}
	tcp, socket, err := dialObserved(ctx, t.cfg.Base.DialContext, address)
	if err != nil {
		return nil, err
	}
	c := &connection{scheme: to.Scheme, address: address, socket: socket, tcp: tcp, conn: tcp}
	if !isObservable(socket) {
		t.unobservable.Store(true) // used for one request only
	}
	if to.Scheme == "https" {
		conf := t.cfg.TLS().Clone()
		if conf.ServerName == "" {
			conf.ServerName = to.Hostname()
		}
		secure := tls.Client(tcp, conf)
		ctx, cancel := context.WithTimeout(ctx, t.cfg.Base.TLSHandshakeTimeout)
		defer cancel()
		if err := secure.HandshakeContext(ctx); err != nil {
			tcp.Close()
			return nil, fmt.Errorf("TLS handshake: %w", err)
		}
		c.conn = secure
	}
	c.in, c.out = bufio.NewReader(c.conn), bufio.NewWriter(c.conn)
	return c, nil
}

func (t *Transport) takeIdle(scheme, address string) *connection {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := len(t.idle) - 1; n >= 0; n-- {
		if c := t.idle[n]; c.scheme == scheme && c.address == address {
			copy(t.idle[n:], t.idle[n+1:])
			t.idle[len(t.idle)-1] = nil
			t.idle = t.idle[:len(t.idle)-1]
			return c
		}
	}
	return nil
}

// release returns a connection, which is reused if its response was read to the end.
func (t *Transport) release(c *connection, keep bool) {
	keep = c.unwatch() && keep && c.in.Buffered() == 0 && isObservable(c.socket)
	if keep {
		c.since = time.Now()
		t.mu.Lock()
		t.idle = append(t.idle, c)
		if t.timer == nil {
			t.timer = time.AfterFunc(t.cfg.Idle, func() { t.expire(t.cfg.Idle) })
		}
		t.mu.Unlock()
	} else {
		c.conn.Close()
	}
	<-t.slots
}

// expire closes the connections that were idle for too long, and sets the timer for the others.
func (t *Transport) expire(after time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := 0
	for ; old < len(t.idle) && time.Since(t.idle[old].since) >= after; old++ {
		t.idle[old].conn.Close()
	}
	t.idle = append([]*connection(nil), t.idle[old:]...)
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if len(t.idle) > 0 {
		t.timer = time.AfterFunc(t.cfg.Idle-time.Since(t.idle[0].since), func() { t.expire(t.cfg.Idle) })
	}
}

// connection is a connection to one server, for one request at a time.
type connection struct {
	scheme, address string
	socket          net.Conn // queried for its state
	tcp, conn       net.Conn // conn wraps tcp, which wraps socket
	in              *bufio.Reader
	out             *bufio.Writer
	since           time.Time // start of the idle time
	stop            func() bool
}

// watch makes I/O on the connection fail when ctx ends.
func (c *connection) watch(ctx context.Context) {
	if ctx.Done() != nil {
		c.stop = context.AfterFunc(ctx, c.interrupt)
	}
}

// interrupt makes I/O on the connection fail.
func (c *connection) interrupt() { _ = c.tcp.SetDeadline(time.Unix(1, 0)) }

// unwatch undoes watch, and reports whether ctx has not ended.
func (c *connection) unwatch() bool {
	stop := c.stop
	c.stop = nil
	return stop == nil || stop()
}

// exchange sends a request and reads the header of its response.
func (c *connection) exchange(req *http.Request) (*http.Response, error) {
	sent := req.Write(c.out)
	if sent == nil {
		sent = c.out.Flush()
	}
	// A server that rejects a request may respond before it has read it, and stop reading.
	for {
		resp, err := http.ReadResponse(c.in, req)
		switch {
		case err != nil && sent != nil:
			return nil, sent
		case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
			return nil, fmt.Errorf("the server closed the connection before it answered: %w", err)
		case err != nil:
			return nil, err
		case resp.StatusCode >= 200:
			resp.Close = resp.Close || sent != nil
			return resp, nil
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the server switched protocols, although the request did not ask for that")
		}
	}
}

// body is a response body that releases the connection.
type body struct {
	io.ReadCloser
	left       int64 // -1 if unknown
	keep       bool
	transport  *Transport
	connection *connection // nil after release
}

func (b *body) Read(p []byte) (int, error) {
	if b.connection == nil {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	switch {
	case err == io.EOF:
		b.releaseConnection(b.keep)
	case err != nil:
		b.releaseConnection(false)
	}
	return n, err
}

func (b *body) Close() error {
	b.releaseConnection(b.keep && b.left == 0)
	return nil
}

func (b *body) releaseConnection(keep bool) {
	if c := b.connection; c != nil {
		b.connection = nil
		b.transport.release(c, keep)
	}
}
