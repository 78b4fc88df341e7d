package explore

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stream is the body of a watch. Each event is a step.
type stream struct {
	ctx     context.Context
	process *process
	call    call
	body    io.ReadCloser
	lines   *bufio.Reader
	initial bool   // the events are those of a list, until the bookmark at its end
	begin   int    // number of further events that are those of a list
	ready   []byte // the rest of the event that the explorer has let through
	err     error
	closed  sync.Once
}

func newStream(ctx context.Context, p *process, c call, body io.ReadCloser, begin int) *stream {
	p.watching(c.resource, 1)
	s := &stream{ctx: ctx, process: p, call: c, body: body, initial: c.initial, begin: begin,
		lines: bufio.NewReader(body)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.streams == nil {
		p.streams = map[*stream]bool{}
	}
	p.streams[s] = true
	return s
}

// Read implements io.Reader. It returns one event at a time, when the explorer lets it through.
func (s *stream) Read(into []byte) (int, error) {
	for len(s.ready) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		line, err := s.lines.ReadBytes('\n')
		if err != nil {
			s.err = err
			if len(line) == 0 {
				return 0, err
			}
		}
		event := &step{phase: delivering, call: s.call, process: s.process, initial: s.initial || s.begin > 0}
		s.describe(event, line)
		switch v, err := s.process.operator.gate.wait(s.ctx, event); {
		case err != nil:
			s.err = err
		case v == killed:
			s.err = errKilled
		case v == cut:
			s.err = io.EOF
			s.body.Close()
		default:
			s.ready = line
		}
	}
	n := copy(into, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

func (s *stream) Close() error {
	s.closed.Do(func() {
		s.process.watching(s.call.resource, -1)
		s.process.mu.Lock()
		defer s.process.mu.Unlock()
		delete(s.process.streams, s)
	})
	return s.body.Close()
}

// describe sets the label of the step of an event, its revision and, if the event is about an
// object, its point without a number.
func (s *stream) describe(of *step, line []byte) {
	var event watchEvent
	if json.Unmarshal(line, &event) != nil {
		of.label = "event " + s.call.resource
		return
	}
	if event.endsList() {
		s.initial = false
	}
	if s.begin > 0 {
		s.begin--
	}
	verb := strings.ToLower(event.Type)
	object := qualified(event.Object.Metadata.Namespace, event.Object.Metadata.Name)
	point := Point{Verb: verb, Resource: s.call.resource, Object: generic(&event.Object.Metadata)}
	if !of.initial && point.isEvent() && !background.Has(s.call.resource) {
		of.point = point
	}
	of.label = strings.TrimSpace(verb + " " + s.call.resource + " " + object)
	// 0 for errors
	of.revision, _ = strconv.ParseUint(event.Object.Metadata.ResourceVersion, 10, 64)
}

func qualified(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// generic returns NAMESPACE/NAME with a generated name as PREFIX*.
func generic(meta *metav1.ObjectMeta) string {
	return qualified(meta.Namespace, withoutRandom(meta.Name, meta.GenerateName))
}

// withoutRandom returns a name, with a generated one as PREFIX*. The server cuts long prefixes.
func withoutRandom(name, prefix string) string {
	const longest = 63 - len("abcde")
	if prefix == "" || !strings.HasPrefix(name, prefix[:min(len(prefix), longest)]) {
		return name
	}
	return prefix + "*"
}
