package filters

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/rest/wire"
)

// timed gives short requests a deadline: that of the configuration, or an earlier one that the
// query requests. Handlers stop when their context ends, and the response is then 504. The transfer
// of the body and of the response is bounded as well: a client that does not accept its response
// loses the stream.
func (c *Chain) timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		call := callOf(req)
		if call.longRunning {
			next.ServeHTTP(w, req)
			return
		}
		timeout := c.cfg.Timeout
		if wanted, err := requestedTimeout(req); err != nil {
			call.malformed = apierrors.NewBadRequest(err.Error())
		} else if wanted > 0 {
			timeout = min(timeout, wanted)
		}
		call.at = call.received.Add(timeout)
		call.answer.bound(c.cfg.Stall, call.at.Add(c.cfg.Stall))
		defer call.answer.done()
		defer call.end()
		if req.ProtoMajor == 1 && req.ContentLength != 0 {
			// net/http reads the rest of a body before it sends a response. In-process transports
			// have no such deadline.
			_ = http.NewResponseController(call.answer.ResponseWriter).SetReadDeadline(call.at)
		}
		next.ServeHTTP(w, req)
	})
}

// requestedTimeout returns the time that the query of a request allows, or 0.
func requestedTimeout(req *http.Request) (time.Duration, error) {
	if !strings.Contains(req.URL.RawQuery, "timeout=") {
		return 0, nil
	}
	value := req.URL.Query().Get("timeout")
	if value == "" {
		return 0, nil
	}
	timeout, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("invalid timeout specified in the request URL - %w", err)
	}
	return timeout, nil
}

// wellFormed rejects requests whose query has a malformed timeout or long selectors.
func (c *Chain) wellFormed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := callOf(req).malformed; err != nil {
			wire.Error(w, req, err)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// leaveWithin is how long Shutdown waits for a client to read what was sent to it by a long-running
// request. A watch whose client does not read ends then; the client resumes it after its last
// event.
const leaveWithin = 2 * time.Second

// flight tracks the requests in flight.
type flight struct {
	mu       sync.Mutex
	draining bool
	short    int
	long     map[*http.Request]func() // ends the request
	// empty is closed when the last request ends while draining; nil: Shutdown does not wait
	empty chan struct{}
}

// drained rejects requests after Shutdown was called.
func (c *Chain) drained(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req, done, ok := c.flight.begin(w, req)
		if !ok {
			w.Header().Set("Connection", "close")
			wire.Error(w, req, shuttingDown())
			return
		}
		defer done()
		next.ServeHTTP(w, req)
	})
}

func shuttingDown() error {
	err := apierrors.NewServiceUnavailable("apiserver is shutting down")
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return err
}

func (f *flight) begin(w http.ResponseWriter, req *http.Request) (_ *http.Request, done func(), ok bool) {
	long := callOf(req).longRunning
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return req, nil, false
	}
	if !long {
		f.short++
		return req, f.endShort, true
	}
	ctx, cancel := context.WithCancel(req.Context())
	req = req.WithContext(ctx)
	if f.long == nil {
		f.long = map[*http.Request]func(){}
	}
	f.long[req] = func() {
		cancel()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(leaveWithin))
	}
	return req, func() {
		cancel()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.long, req)
		f.checkEmpty()
	}, true
}

func (f *flight) endShort() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.short--
	f.checkEmpty()
}

// checkEmpty closes empty when no request is in flight. The caller holds mu.
func (f *flight) checkEmpty() {
	if f.empty != nil && f.short == 0 && len(f.long) == 0 {
		close(f.empty)
		f.empty = nil
	}
}

// Stopping makes /readyz fail, so that load balancers send clients to other servers. Requests are
// served as before until Shutdown.
func (c *Chain) Stopping() { c.stopping.Store(true) }

// Shutdown rejects new requests with 503 and a Retry-After header, ends watches and other
// long-running requests, and waits for the short ones. It returns when no request is left, or the
// context's error. Kubernetes allows 60 seconds.
func (c *Chain) Shutdown(ctx context.Context) error {
	f := &c.flight
	f.mu.Lock()
	if f.empty != nil {
		f.mu.Unlock()
		return errors.New("shut down: already in progress")
	}
	f.draining = true
	for _, end := range f.long {
		end()
	}
	empty := make(chan struct{})
	f.empty = empty
	f.checkEmpty()
	f.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
