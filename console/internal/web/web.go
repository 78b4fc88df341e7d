// Package web has the parts that the console's handlers share: responses in JSON, errors, and
// streams of server-sent events.
package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Error is an error as the page receives it.
type Error struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// Causes name the invalid fields.
	Causes []metav1.StatusCause `json:"causes,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Errorf returns an Error with an HTTP status code.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Reason: http.StatusText(code), Message: fmt.Sprintf(format, args...)}
}

// AsError converts an error. The status of a Kubernetes API server keeps its code and reason.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s := status.Status()
		e := &Error{Code: int(s.Code), Reason: string(s.Reason), Message: s.Message}
		if s.Details != nil {
			e.Causes = s.Details.Causes
		}
		if e.Code < 400 || e.Code > 599 {
			e.Code = http.StatusBadGateway
		}
		return e
	}
	return &Error{Code: http.StatusBadGateway, Reason: "Unavailable", Message: err.Error()}
}

// Func handles a request and returns the body of the response, which is encoded as JSON.
type Func func(r *http.Request) (any, error)

func (f Func) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := f(r)
	if err != nil {
		Fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // an error means that the client has closed the connection
}

// Fail responds with an error.
func Fail(w http.ResponseWriter, err error) {
	e := AsError(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Code)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": e})
}

// Stream is a response with server-sent events. One goroutine may use it.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// keepAlive is the interval of comments that keep a quiet stream open.
const keepAlive = 15 * time.Second

// sendWithin is how long a client may take to accept an event.
const sendWithin = 30 * time.Second

// NewStream begins a stream. It lifts the server's time limits, which are for single responses;
// every event has its own limit.
func NewStream(w http.ResponseWriter) *Stream {
	w.Header().Set("Content-Type", "text/event-stream")
	s := &Stream{w, http.NewResponseController(w)}
	_ = s.control.SetReadDeadline(time.Time{})
	s.begin()
	w.WriteHeader(http.StatusOK)
	_ = s.control.Flush()
	return s
}

// begin starts the time limit of an event. Writers without deadlines, as in tests, have none.
func (s *Stream) begin() { _ = s.control.SetWriteDeadline(time.Now().Add(sendWithin)) }

// Send sends an event whose data is a value as JSON.
func (s *Stream) Send(event string, value any) error {
	data, err := json.Marshal(value) // the data is one line, because JSON escapes line breaks
	if err != nil {
		return err
	}
	s.begin()
	if _, err := fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", event, data); err != nil {
		return err
	}
	return s.control.Flush()
}

// Ping sends a comment, which clients ignore.
func (s *Stream) Ping() error {
	s.begin()
	if _, err := fmt.Fprint(s.w, ":\n\n"); err != nil {
		return err
	}
	return s.control.Flush()
}

// States sends the value of get as an event named state immediately, and after each signal of
// changed if the encoded value has changed. It waits at least pace between two values, and returns
// when ctx ends or the client has closed the connection. An error of get is sent as an event named
// failure.
func States(ctx context.Context, w http.ResponseWriter, changed func() <-chan struct{}, pace time.Duration,
	get func(context.Context) (any, error)) {
	s := NewStream(w)
	last := ""
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for {
		wait := changed() // before get, so that no change is missed
		event := "state"
		value, err := get(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			event, value = "failure", AsError(err)
		}
		data, err := json.Marshal(value)
		if err != nil {
			return
		}
		if text := event + string(data); text != last {
			last = text
			if s.Send(event, json.RawMessage(data)) != nil {
				return
			}
		}
		pause := time.NewTimer(pace)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return
			case <-wait:
				waiting = false
			case <-alive.C:
				if s.Ping() != nil {
					return
				}
			}
		}
	}
}

// Signal notifies any number of readers of changes. The zero value is not usable; see NewSignal.
type Signal struct{ next chan chan struct{} }

// NewSignal returns a signal.
func NewSignal() *Signal {
	s := &Signal{make(chan chan struct{}, 1)}
	s.next <- make(chan struct{})
	return s
}

// Wait returns a channel that is closed at the next call of Notify.
func (s *Signal) Wait() <-chan struct{} {
	c := <-s.next
	s.next <- c
	return c
}

// Notify wakes all readers.
func (s *Signal) Notify() {
	close(<-s.next)
	s.next <- make(chan struct{})
}
