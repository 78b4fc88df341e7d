package filters

import (
	"bufio"
	"net"
	"net/http"
	"time"

	"kelson.dev/apiserver/internal/watchdog"
	"kelson.dev/apiserver/serving/hijack"
)

// defaultStall is the default of Config.Stall.
const defaultStall = 10 * time.Second

const (
	// buffered is how many bytes of a response net/http's servers accept without waiting for the
	// client. http.Server.WriteTimeout bounds what is sent after the handler has returned.
	buffered = 4 << 10
	// piece is how many bytes of a response the client must accept within Config.Stall.
	piece = 128 << 10
)

// recorder remembers the status code of a response. It ends the stream of a short request when the
// client does not accept a piece of the response in time, or the whole response before the
// deadline.
type recorder struct {
	http.ResponseWriter
	code int // 0: nothing was sent

	sent  int                // bytes written without a time limit
	stall time.Duration      // 0: the response has no time limit
	last  time.Time          // deadline of the whole response
	seat  *seat              // released while the client does not read the response; nil: none
	watch *watchdog.Watchdog // nil until the response exceeds the buffers
}

// bound sets the limits. It is called before the response begins.
func (r *recorder) bound(stall time.Duration, last time.Time) { r.stall, r.last = stall, last }

// done must be called before the handler returns, because the ResponseWriter must not be used
// later.
func (r *recorder) done() {
	if r.watch != nil {
		r.watch.Stop()
	}
}

func (r *recorder) WriteHeader(code int) {
	if r.code == 0 && code >= 200 {
		r.code = code
	}
	r.ResponseWriter.WriteHeader(code)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.code == 0 {
		r.code = http.StatusOK
	}
	if r.stall == 0 {
		return r.ResponseWriter.Write(p)
	}
	if r.sent += len(p); r.sent <= buffered {
		return r.ResponseWriter.Write(p)
	}
	r.sent = buffered // keeps the sum from overflowing
	return r.writePieces(p)
}

// writePieces writes pieces of p, each with its own time limit.
func (r *recorder) writePieces(p []byte) (written int, err error) {
	for {
		part := p[:min(len(p), piece)]
		r.begin()
		n, err := r.ResponseWriter.Write(part)
		r.watch.End()
		written += n
		if p = p[len(part):]; err != nil || len(p) == 0 {
			return written, err
		}
	}
}

// begin starts a step of the transfer.
func (r *recorder) begin() {
	if r.watch == nil {
		inner := r.ResponseWriter
		r.watch = &watchdog.Watchdog{Late: func() {
			_ = http.NewResponseController(inner).SetWriteDeadline(aLongTimeAgo)
		}}
		if r.seat != nil {
			r.watch.Slow = r.seat.giveUp
		}
	}
	until := time.Now().Add(r.stall)
	if r.last.Before(until) {
		until = r.last
	}
	r.watch.Begin(until)
}

// aLongTimeAgo is a deadline that ends a transfer immediately.
var aLongTimeAgo = time.Unix(1, 0)

// SetWriteDeadline lets handlers extend the deadline of their response. A zero time lifts all
// bounds.
func (r *recorder) SetWriteDeadline(at time.Time) error {
	if at.IsZero() {
		r.done()
		r.stall = 0
	}
	return http.NewResponseController(r.ResponseWriter).SetWriteDeadline(at)
}

// Flush implements [http.Flusher].
func (r *recorder) Flush() {
	if r.code == 0 {
		r.code = http.StatusOK
	}
	if r.stall > 0 {
		r.begin()
		defer r.watch.End()
	}
	_ = http.NewResponseController(r.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker, for connections that switch to another protocol.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if r.code == 0 {
		r.code = http.StatusSwitchingProtocols
	}
	return hijack.Linger(conn), buf, nil
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
