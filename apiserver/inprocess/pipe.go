package inprocess

import (
	"context"
	"io"
	"sync"
)

// window is how many bytes a handler may be ahead of its client.
const window = 256 << 10

// pipe is a bounded buffer between the handler, which writes, and the client, which reads and
// closes.
type pipe struct {
	mu     sync.Mutex
	moved  sync.Cond // something was written, read or ended
	buf    []byte
	off    int
	end    error // set when the writer has finished; Read returns it after the last byte
	closed bool  // the reader is gone
	cancel context.CancelFunc
}

func newPipe(cancel context.CancelFunc) *pipe {
	p := &pipe{cancel: cancel}
	p.moved.L = &p.mu
	return p
}

// room reports whether n more bytes fit without blocking.
func (p *pipe) room(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.buf)-p.off+n <= window
}

// Write blocks while the window is full. A write larger than the window is accepted as a whole when
// the buffer is empty.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed && p.end == nil && len(p.buf) > p.off && len(p.buf)-p.off+len(b) > window {
		p.moved.Wait()
	}
	if p.closed || p.end != nil {
		return 0, errClientGone
	}
	if p.off > 0 && p.off == len(p.buf) {
		p.buf, p.off = p.buf[:0], 0
	}
	p.buf = append(p.buf, b...)
	p.moved.Broadcast()
	return len(b), nil
}

// Read blocks until there is data or the stream has ended.
func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed && p.end == nil && p.off == len(p.buf) {
		p.moved.Wait()
	}
	if p.closed {
		return 0, io.ErrClosedPipe
	}
	if p.off == len(p.buf) {
		return 0, p.end
	}
	n := copy(b, p.buf[p.off:])
	p.off += n
	p.moved.Broadcast()
	return n, nil
}

// finish ends the stream after the data written so far.
func (p *pipe) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end == nil {
		p.end = err
	}
	p.moved.Broadcast()
}

// abort ends the stream because the request's context ended.
func (p *pipe) abort(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end == nil {
		p.end = err
		p.buf, p.off = nil, 0
	}
	p.moved.Broadcast()
}

// Close is called by the client; it cancels the handler.
func (p *pipe) Close() error {
	p.mu.Lock()
	p.closed = true
	p.moved.Broadcast()
	p.mu.Unlock()
	p.cancel()
	return nil
}
