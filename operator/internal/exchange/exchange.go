// Package exchange sends small requests to a server and reads the answers in the goroutine that asks, over HTTP/1.1 connections that it keeps.
//
// net/http gives each connection two goroutines, so that an answer may come before its request is sent, and tells them of each request and
// answer. For the writes of an operator, of a few kilobytes with answers of as many, that hand-over is a third of what a write takes client and server
// together (BenchmarkWrite). Here a request has a connection to itself until its answer is read.
//
// What is out of the ordinary stays with net/http: a [Transport] stands before an http.Transport, dials as it does and leaves to it reads (which
// are compressed, and repeated when a connection was closed meanwhile), requests through proxies, upgrades, and bodies of unknown length.
//
// A server may close a connection while it is idle. A write that is sent over it then is lost, and it can't be known whether it was done: so the
// system is asked about a connection before it is used again. Where that can't be done, because the connection is none of the system's (a tunnel,
// say) or the system is not a Unix, net/http does everything: its goroutine reads from idle connections.
package exchange

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

// Config describes a Transport. All of it is required.
type Config struct {
	// Base does what this Transport does not. Its Proxy and DialContext are those of both.
	Base *http.Transport
	// Otherwise is called in the place of Base, which is below it.
	Otherwise http.RoundTripper
	// TLS is asked for the configuration of each new connection.
	TLS func() *tls.Config
	// Connections is how many there are at most; further requests wait.
	Connections int
	// Idle is how long a connection is kept without use.
	Idle time.Duration
}

// Transport is an http.RoundTripper, safe for concurrent use.
type Transport struct {
	cfg   Config
	slots chan struct{}

	mu    sync.Mutex
	idle  []*connection // the one that was used last is last
	timer *time.Timer   // closes what was idle too long; nil while nothing is idle

	unobservable atomic.Bool // connections are, so that it can't be told which of them the server has closed
}

// New makes a transport. It does nothing until it is used.
func New(cfg Config) *Transport {
	return &Transport{cfg: cfg, slots: make(chan struct{}, cfg.Connections)}
}

// WrappedRoundTripper is the transport that does what this one does not.
func (t *Transport) WrappedRoundTripper() http.RoundTripper { return t.cfg.Otherwise }

// RoundTrip does one exchange. The connection is free again when the answer's body was read to its end, and closed if that does not happen
// before the body is.
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
	resp, err := c.exchange(req)
	if err != nil {
		t.release(c, false)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	if resp.Body == http.NoBody {
		t.release(c, !resp.Close)
		return resp, nil
	}
	resp.Body = &body{ReadCloser: resp.Body, left: resp.ContentLength, keep: !resp.Close, transport: t, connection: c}
	return resp, nil
}

// CloseIdleConnections closes what is not in use.
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

// connect is an idle connection to the server of a URL, or a new one.
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
		t.unobservable.Store(true) // this one serves one request
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

// release ends the use of a connection, which may go on with another request if its answer was read to the end.
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

// expire closes the connections that were idle for so long, and comes back for the others.
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

// connection is to one server, for one request at a time.
type connection struct {
	scheme, address string
	socket          net.Conn // what the system is asked about
	tcp, conn       net.Conn // conn is over tcp, which is over socket
	in              *bufio.Reader
	out             *bufio.Writer
	since           time.Time // it is idle
	stop            func() bool
}

// watch has what waits on the connection end with ctx.
func (c *connection) watch(ctx context.Context) {
	if ctx.Done() != nil {
		c.stop = context.AfterFunc(ctx, func() { c.tcp.SetDeadline(time.Unix(1, 0)) })
	}
}

// unwatch undoes watch, and says whether the connection is as before.
func (c *connection) unwatch() bool {
	stop := c.stop
	c.stop = nil
	return stop == nil || stop()
}

// exchange sends a request and reads the head of its answer.
func (c *connection) exchange(req *http.Request) (*http.Response, error) {
	sent := req.Write(c.out)
	if sent == nil {
		sent = c.out.Flush()
	}
	// A server that refuses a request may answer before it has read it, and read no more.
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
			return nil, errors.New("the server switched protocols unasked")
		}
	}
}

// body gives the connection back.
type body struct {
	io.ReadCloser
	left       int64 // -1 if that is not known
	keep       bool
	transport  *Transport
	connection *connection // nil when it was given back
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
		b.giveBack(b.keep)
	case err != nil:
		b.giveBack(false)
	}
	return n, err
}

func (b *body) Close() error {
	b.giveBack(b.keep && b.left == 0)
	return nil
}

func (b *body) giveBack(keep bool) {
	if c := b.connection; c != nil {
		b.connection = nil
		b.transport.release(c, keep)
	}
}
