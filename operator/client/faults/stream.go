package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stream is the body of a watch. Each of its events is a call.
type stream struct {
	ctx       context.Context
	cancel    context.CancelFunc
	transport *Transport
	watch     Call
	body      io.ReadCloser
	lines     *bufio.Reader
	ready     []byte // the rest of the event that has arrived
	err       error  // after ready
}

func newStream(ctx context.Context, t *Transport, watch Call, body io.ReadCloser) *stream {
	s := &stream{transport: t, watch: watch, body: body, lines: bufio.NewReader(body)}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// Read implements io.Reader. It returns the bytes of one event at a time.
func (s *stream) Read(into []byte) (int, error) {
	if len(into) == 0 {
		return 0, nil
	}
	for len(s.ready) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.next()
	}
	n := copy(into, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// next reads an event and decides about it.
func (s *stream) next() {
	line, err := s.lines.ReadBytes('\n')
	s.ready, s.err = line, err
	call, ok := s.event(line)
	if !ok {
		return
	}
	rule := s.transport.decide(call)
	err = rule.wait(s.ctx)
	arrives := err == nil
	if err == nil && rule.err != nil {
		err, arrives = rule.err(call), rule.after
	}
	if err == nil {
		return
	}
	if !arrives {
		s.ready = nil
	}
	var api apierrors.APIStatus
	if errors.As(err, &api) {
		frame, marshalled := json.Marshal(struct {
			Type   string        `json:"type"`
			Object metav1.Status `json:"object"`
		}{"ERROR", withKind(api.Status())})
		if err = marshalled; err == nil {
			s.ready, err = append(append([]byte(nil), s.ready...), append(frame, '\n')...), io.EOF
		}
	}
	s.err = err
	s.body.Close()
}

// event returns the call of an event, and false for bookmarks and errors.
func (s *stream) event(line []byte) (Call, bool) {
	var e struct {
		Type   string
		Object struct {
			Metadata struct{ Namespace, Name string }
			Rows     []struct {
				Object struct {
					Metadata struct{ Namespace, Name string }
				}
			}
		}
	}
	if json.Unmarshal(line, &e) != nil || e.Type != "ADDED" && e.Type != "MODIFIED" && e.Type != "DELETED" {
		return Call{}, false
	}
	meta := e.Object.Metadata
	if len(e.Object.Rows) == 1 { // a Table
		meta = e.Object.Rows[0].Object.Metadata
	}
	return Call{Verb: Event, Resource: s.watch.Resource, Namespace: meta.Namespace, Name: meta.Name}, true
}

// Close implements io.Closer. It ends a Read that waits.
func (s *stream) Close() error {
	s.cancel()
	return s.body.Close()
}
