package filters

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kelson.dev/apiserver/internal/watchdog"
	"kelson.dev/apiserver/rest/wire"
)

const (
	// defaultMaxBody is kube-apiserver's limit of a body.
	defaultMaxBody = 3 << 20
	// uploadRate is the minimum rate of a body after Config.Stall, in bytes per second.
	uploadRate = 4 << 10
	// firstRead is the size of the first buffer of a body. It does not depend on the client's
	// Content-Length.
	firstRead = 16 << 10
	// costlyEstimate is the size in bytes of bodies whose estimate can take a millisecond.
	costlyEstimate = 128 << 10
)

// received reads the body of a short request before the request takes a seat, so that clients that
// stop sending hold no seat. A body must arrive at uploadRate and before the request's deadline;
// otherwise the response is 504. A complete body waits for its share of the memory that decoding
// takes, at most for a quarter of Config.Timeout. The response is 429 after that, and when the
// arriving bodies of a user, with the heads of their requests, take too much memory.
//
// The handler reports other errors when it reads the body, because the request may be forbidden or
// the path unknown. The handler reads the part of a body beyond Config.MaxBody from the client.
func (c *Chain) received(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		call := callOf(req)
		if call.longRunning || req.Body == nil || req.Body == http.NoBody || req.ContentLength == 0 {
			next.ServeHTTP(w, req)
			return
		}
		user := userName(req)
		always := privileged(req)
		a := &arrival{chain: c, user: user, always: always, head: headSize(req)}
		err := a.read(req, &call.answer, call.received, call.at)
		switch {
		case err == errNoShare:
			a.release()
			refuse(w)
			return
		case errors.Is(err, os.ErrDeadlineExceeded) || a.late:
			a.release()
			wire.Error(w, req, apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0))
			return
		}
		need := int64(len(a.data))
		if err == nil && a.rest == nil {
			var bad error
			if need, bad = c.need(req, a.data); bad != nil {
				err, need = bad, 0
			} else if most := c.decoding.most(); most >= 0 && need > most {
				err = apierrors.NewRequestEntityTooLargeError(
					fmt.Sprintf("decoding it takes about %d bytes of memory, limit is %d", need, most))
				need = 0
			}
		}
		if err != nil {
			a.data = nil // the handler gets only the error
		}
		switch {
		case always:
			c.decoding.force(user, need)
		case !c.decoding.take(req.Context(), user, need, c.cfg.Timeout/4):
			a.release()
			refuse(w)
			return
		}
		a.release()
		defer c.decoding.give(user, need)
		req.Body = &body{data: a.data, err: err, rest: a.rest}
		next.ServeHTTP(w, req)
	})
}

// need estimates the memory that decoding a body takes. Bodies with a costly estimate take turns,
// so that they leave a processor to other requests.
func (c *Chain) need(req *http.Request, body []byte) (int64, error) {
	if len(body) >= costlyEstimate {
		t, err := c.estimating.Take(req.Context())
		if err != nil {
			return 0, err
		}
		defer t.End()
	}
	return wire.Need(req.Header.Get("Content-Type"), body, c.cfg.MaxBody)
}

// errNoShare reports that arriving bodies take too much memory.
var errNoShare = errors.New("too many bodies are in progress")

// arrival reads one body.
type arrival struct {
	chain  *Chain
	user   string
	always bool  // the user is an administrator: the body is counted, but never refused
	head   int64 // headSize of the request
	held   int64 // of chain.arriving

	data []byte
	rest io.ReadCloser // the part after data, if the body is too large; nil: none
	late bool          // it did not arrive in time
}

// read reads a body up to Config.MaxBody. It returns errNoShare, or the error of the connection.
func (a *arrival) read(req *http.Request, w *recorder, start, at time.Time) error {
	stall, most := a.chain.cfg.Stall, a.chain.cfg.MaxBody
	dog := &watchdog.Watchdog{Late: func() {
		a.late = true
		_ = http.NewResponseController(w.ResponseWriter).SetReadDeadline(aLongTimeAgo)
	}}
	defer dog.Stop()
	for {
		if len(a.data) == cap(a.data) {
			if int64(len(a.data)) > most {
				a.rest = req.Body
				return nil
			}
			if !a.grow(req.ContentLength, most) {
				return errNoShare
			}
		}
		until := start.Add(stall + time.Duration(len(a.data))*time.Second/uploadRate)
		if at.Before(until) {
			until = at
		}
		dog.Begin(until)
		n, err := req.Body.Read(a.data[len(a.data):cap(a.data)])
		dog.End()
		a.data = a.data[:len(a.data)+n]
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// grow enlarges the buffer: to the whole of a small body of known length, otherwise to twice its
// size. It reserves one byte more than the body, to detect its end or that it is too large. The
// first call also reserves the size of the head. It returns false if the budget has no share left.
func (a *arrival) grow(length, most int64) bool {
	size := max(2*int64(cap(a.data)), firstRead)
	if length >= 0 && length < most {
		size = min(size, length+1)
	}
	size = min(size, most+1)
	more := size - int64(cap(a.data))
	if a.held == 0 {
		more += a.head
	}
	if a.always {
		a.chain.arriving.force(a.user, more)
	} else if !a.chain.arriving.tryTake(a.user, more) {
		return false
	}
	a.held += more
	data := make([]byte, len(a.data), size)
	copy(data, a.data)
	a.data = data
	return true
}

// release returns the body's share to the budget.
func (a *arrival) release() {
	if a.held > 0 {
		a.chain.arriving.give(a.user, a.held)
		a.held = 0
	}
}

// body is a request body that the pipeline has read.
type body struct {
	data []byte
	err  error         // the error that ended reading; nil: io.EOF
	rest io.ReadCloser // the part after data; nil: none
}

func (b *body) Read(p []byte) (int, error) {
	switch {
	case len(p) == 0:
		return 0, nil
	case len(b.data) > 0:
		n := copy(p, b.data)
		b.data = b.data[n:]
		return n, nil
	case b.err != nil:
		return 0, b.err
	case b.rest != nil:
		return b.rest.Read(p)
	}
	return 0, io.EOF
}

func (b *body) Close() error { return nil } // the server closes the original body

// Rest returns the unread bytes if they are the rest of the whole body. The caller owns them; later
// reads return io.EOF.
func (b *body) Rest() (data []byte, ok bool) {
	if b.err != nil || b.rest != nil {
		return nil, false
	}
	data, b.data = b.data, nil
	return data, true
}
