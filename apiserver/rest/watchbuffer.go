package rest

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/util/flowcontrol"

	"kelson.dev/apiserver/internal/watchdog"
	"kelson.dev/apiserver/serving/coalesce"
)

// A watch whose client does not read waits in Write, for up to [stall]. It then holds a bounded
// amount of memory: frames that all watches of the object or event share, and one buffer for small
// frames. Most buffers are small; a limited number of watches with much to send get a large one.
const (
	smallBuffer = 16 << 10
	largeBuffer = 256 << 10
	// largeBuffers is the maximum number of large buffers in the process.
	largeBuffers = 32
	// stall limits how long a client may take to accept one write. A client whose watch ends loses
	// nothing: it continues after the last event that it received.
	stall = time.Minute
	// maxInitial limits how long sending the initial events may take, because they keep an old
	// state in memory.
	maxInitial = 10 * time.Minute
)

var (
	small      = sync.Pool{New: func() any { b := make([]byte, 0, smallBuffer); return &b }}
	large      = sync.Pool{New: func() any { b := make([]byte, 0, largeBuffer); return &b }}
	largeTaken atomic.Int32
)

// pending collects small frames until they are sent. The zero value is empty and holds no memory.
type pending struct {
	buf *[]byte
}

// append adds the parts of a frame. It returns false if they do not fit.
func (p *pending) append(parts ...[]byte) bool {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	if p.buf == nil {
		p.buf = small.Get().(*[]byte)
	}
	if len(*p.buf)+size > cap(*p.buf) && !p.grow(size) {
		return false
	}
	for _, part := range parts {
		*p.buf = append(*p.buf, part...)
	}
	return true
}

// grow switches to a large buffer. It returns false if no buffer is free or size does not fit.
func (p *pending) grow(size int) bool {
	if cap(*p.buf) == largeBuffer || len(*p.buf)+size > largeBuffer {
		return false
	}
	if largeTaken.Add(1) > largeBuffers {
		largeTaken.Add(-1)
		return false
	}
	b := large.Get().(*[]byte)
	*b = append((*b)[:0], *p.buf...)
	*p.buf = (*p.buf)[:0]
	small.Put(p.buf)
	p.buf = b
	return true
}

func (p *pending) bytes() []byte {
	if p.buf == nil {
		return nil
	}
	return *p.buf
}

// release returns the buffer to its pool.
func (p *pending) release() {
	switch {
	case p.buf == nil:
		return
	case cap(*p.buf) == largeBuffer:
		*p.buf = (*p.buf)[:0]
		large.Put(p.buf)
		largeTaken.Add(-1)
	default:
		*p.buf = (*p.buf)[:0]
		small.Put(p.buf)
	}
	p.buf = nil
}

// writing sends the events of a watch, and ends the watch when its client does not accept them.
type writing struct {
	w    http.ResponseWriter
	req  *http.Request
	dog  watchdog.Watchdog
	last time.Time // when all calls must have returned; zero: never
}

// newWriting returns the writing of a watch that must have sent its initial events by last; zero
// means no limit. seated means that the watch has seats of flow control, which it releases when its
// client is slow or the initial events have been sent.
func newWriting(w http.ResponseWriter, req *http.Request, seated bool, last time.Time) *writing {
	wr := &writing{w: w, req: req, last: last}
	// Only transports of this process cannot end a stream; the error is ignored.
	wr.dog.Late = func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)) }
	if seated {
		wr.dog.Slow = func() { flowcontrol.WatchInitialized(req.Context()) }
	}
	return wr
}

// write makes one call of Write.
func (w *writing) write(p []byte) error {
	w.begin()
	defer w.dog.End()
	if len(p) > gatherAt {
		defer coalesce.Begin(w.req.Context())()
	}
	_, err := w.w.Write(p)
	return err
}

// flush sends what net/http has buffered.
func (w *writing) flush(f http.Flusher) {
	w.begin()
	defer w.dog.End()
	f.Flush()
}

func (w *writing) begin() {
	until := time.Now().Add(stall)
	if !w.last.IsZero() && w.last.Before(until) {
		until = w.last
	}
	w.dog.Begin(until)
}

// initialized records that the initial events were sent.
func (w *writing) initialized() {
	w.last = time.Time{}
	w.dog.CallSlow()
}
