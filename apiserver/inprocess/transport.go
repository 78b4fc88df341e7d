// Package inprocess connects an HTTP client to an HTTP handler without a network.
//
// A [Transport] is an http.RoundTripper that calls the handler directly, with one goroutine per
// request. Responses stream: the client can read what the handler has flushed; a handler that
// writes faster than its client reads blocks; a client that closes the body or ends its context
// cancels the handler's context. The transport uses no sockets, timers or background
// goroutines, so it works inside a testing/synctest bubble.
//
//	client := &http.Client{Transport: &inprocess.Transport{Handler: mux}}
package inprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"
)

// Transport passes requests directly to Handler. It is safe for concurrent use.
type Transport struct {
	Handler http.Handler
	// Context, if not nil, changes the context that the handler gets, for example to add the user.
	Context func(context.Context) context.Context
}

// Steady reports that clients always notice the end of a stream, unlike over a network, and need
// not reopen streams periodically.
func (t *Transport) Steady() bool { return true }

// RoundTrip calls the handler and returns as soon as the handler has sent its header and flushed,
// or has returned.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	if t.Context != nil {
		ctx = t.Context(ctx)
	}
	in := req.Clone(ctx)
	in.RequestURI = req.URL.RequestURI()
	in.RemoteAddr = "127.0.0.1:0"
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/1.1", 1, 1
	if in.Host == "" {
		in.Host = req.URL.Host
	}
	switch {
	case in.Body == nil:
		in.Body = http.NoBody
	case in.Body != http.NoBody && in.ContentLength == 0:
		in.ContentLength = -1 // what servers set for a body of unknown length
	}

	x := &exchange{header: http.Header{}, sent: make(chan struct{}), body: newPipe(cancel), from: in.Body}
	stop := context.AfterFunc(ctx, func() { x.body.abort(ctx.Err()) })
	go func() {
		defer cancel()
		defer stop()
		defer in.Body.Close()
		growStack()
		x.serve(t.Handler, in)
	}()

	select {
	case <-x.sent:
	case <-req.Context().Done():
		x.body.Close()
		return nil, req.Context().Err()
	}
	resp := &http.Response{
		Status:     fmt.Sprintf("%d %s", x.status, http.StatusText(x.status)),
		StatusCode: x.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        x.committed,
		ContentLength: -1,
		Body:          x.body,
		Request:       req,
	}
	if n, err := strconv.ParseInt(x.committed.Get("Content-Length"), 10, 64); err == nil {
		resp.ContentLength = n
	}
	return resp, nil
}

// stackBytes is the stack that a write of an API server needs.
const stackBytes = 24 << 10

// growStack makes room on the goroutine's stack for a request. Go doubles a stack whenever a call
// does not fit, and copies all frames; it starts with the average size, which is small in a process
// with many idle goroutines. A server otherwise copies the stack of each write three or four times.
//
//go:noinline
func growStack() {
	var frame [stackBytes]byte
	runtime.KeepAlive(&frame)
}

// exchange is the http.ResponseWriter of one request. Only the handler's goroutine uses it until
// sent is closed; afterwards the client reads status, committed and body.
type exchange struct {
	header    http.Header
	committed http.Header
	status    int
	sent      chan struct{}
	released  bool
	body      *pipe
	from      io.Closer // the request's body
}

func (x *exchange) serve(h http.Handler, req *http.Request) {
	defer func() {
		err := io.EOF
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler {
				panic(p) // the handler chain recovers its own panics, so this is a bug
			}
			err = io.ErrUnexpectedEOF
		}
		if req.Context().Err() != nil {
			err = req.Context().Err() // the response may be incomplete
		}
		x.release()
		x.body.finish(err)
	}()
	h.ServeHTTP(x, req)
}

func (x *exchange) Header() http.Header { return x.header }

func (x *exchange) WriteHeader(status int) {
	if x.status != 0 || status < 200 {
		return
	}
	x.status = status
	x.committed = x.header.Clone()
}

func (x *exchange) Write(p []byte) (int, error) {
	x.WriteHeader(http.StatusOK)
	if !x.released && x.body.room(len(p)) {
		return x.body.Write(p)
	}
	x.release()
	return x.body.Write(p)
}

// SetWriteDeadline makes all writes fail if the deadline has passed; the client then gets an
// incomplete response. Future deadlines are not supported.
func (x *exchange) SetWriteDeadline(at time.Time) error {
	switch {
	case at.IsZero():
	case time.Now().Before(at):
		return http.ErrNotSupported
	default:
		x.body.abort(os.ErrDeadlineExceeded)
	}
	return nil
}

// SetReadDeadline closes the request's body if the deadline has passed. Future deadlines are not
// supported.
func (x *exchange) SetReadDeadline(at time.Time) error {
	switch {
	case at.IsZero():
	case time.Now().Before(at):
		return http.ErrNotSupported
	default:
		return x.from.Close()
	}
	return nil
}

// Flush makes everything written so far available to the client.
func (x *exchange) Flush() { x.release() }

func (x *exchange) release() {
	if !x.released {
		x.WriteHeader(http.StatusOK)
		x.released = true
		close(x.sent)
	}
}

var errClientGone = errors.New("client closed the response body")
