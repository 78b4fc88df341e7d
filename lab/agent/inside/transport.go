package inside

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sort"
	"strings"
	"sync"
)

// Host is the host of the control plane in the operator's configuration.
const Host = "kelson.in-process"

// Transport is the RoundTripper that sends requests to the kelson process.
var Transport http.RoundTripper = transport{}

type transport struct{}

// Steady reports to Kelson's operator library that the end of a watch is always noticed.
func (transport) Steady() bool { return true }

// result is the head of a response, or an error.
type result struct {
	response *http.Response
	err      error
}

// RoundTrip implements http.RoundTripper.
func (transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if !isControlPlane(r.URL) {
		return nil, external(r.URL.Host)
	}
	m := &Message{Method: r.Method, Target: r.URL.RequestURI(), Header: fields(r.Header), Body: body}
	if m.Method == "" {
		m.Method = http.MethodGet
	}
	if isDiscovery(r) {
		return agent.call(r, m)
	}
	ofLease := isLease(r.URL.Path)
	if ofLease {
		if resp := agent.leases.answer(m, r.URL.Path, r.URL.RawQuery); resp != nil {
			resp.Request = r
			return resp, linger(r.Context())
		}
	}
	resp, err := agent.exchange(r, Request, m)
	if err == nil && ofLease {
		agent.leases.follow(m, r.URL.Path, resp)
	}
	return resp, err
}

// exchange sends a request as a frame of a kind, and waits for the response.
func (c *connection) exchange(r *http.Request, kind Kind, m *Message) (*http.Response, error) {
	c.mu.Lock()
	c.last++
	id := c.last
	s := c.newStream(id)
	c.enqueue(Frame{kind, id, m.Append(nil)})
	c.mu.Unlock()
	select {
	case got := <-s.head:
		if got.err != nil {
			c.forget(id)
			return nil, got.err
		}
		got.response.Request = r
		s.cancelWith(r.Context())
		return got.response, nil
	case <-r.Context().Done():
		s.cancel(r.Context().Err())
		return nil, r.Context().Err()
	}
}

func isControlPlane(u *url.URL) bool { return strings.EqualFold(u.Hostname(), Host) }

// isDiscovery reports whether a request reads a document of the API, such as a list of resources.
// Clients hold locks while they wait for such documents. A goroutine that waits for a lock is not
// durably blocked, so the time could not advance until the response arrives.
func isDiscovery(r *http.Request) bool {
	if r.Method != "" && r.Method != http.MethodGet {
		return false
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch parts[0] {
	case "api":
		return len(parts) <= 2
	case "apis":
		return len(parts) <= 3
	}
	return true
}

// call sends a request, and waits for the response in real time: the whole process stands still.
func (c *connection) call(r *http.Request, m *Message) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	id := c.last
	if err := c.out.write(AppendFrame(nil, Frame{Call, id, m.Append(nil)})); err != nil {
		os.Exit(0)
	}
	var resp *http.Response
	var body []byte
	for {
		f, err := c.next()
		if err != nil {
			os.Exit(0)
		}
		if f.ID != id {
			fail(1, "a frame of kind %d for %d instead of the response to %d", f.Kind, f.ID, id)
		}
		switch f.Kind {
		case Failed:
			return nil, errors.New(string(f.Content))
		case Response:
			if resp, err = newResponse(f.Content); err != nil {
				return nil, err
			}
		case Data:
			body = append(body, f.Content...)
		case End:
			resp.Request, resp.ContentLength, resp.Body = r, int64(len(body)), io.NopCloser(bytes.NewReader(body))
			return resp, nil
		}
	}
}

func newResponse(content []byte) (*http.Response, error) {
	m, err := ParseMessage(content)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	for i := 0; i < len(m.Header); i += 2 {
		header.Add(m.Header[i], m.Header[i+1])
	}
	return &http.Response{StatusCode: m.Status, Status: fmt.Sprintf("%d %s", m.Status, http.StatusText(m.Status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, ContentLength: -1}, nil
}

// fields returns the names and values of a header, in the order of the names.
func fields(h http.Header) []string {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	sort.Strings(names)
	var all []string
	for _, name := range names {
		for _, value := range h[name] {
			all = append(all, name, value)
		}
	}
	return all
}

// stream is the body of a response, or the incoming direction of a connection.
type stream struct {
	connection *connection
	id         uint32
	head       chan result

	mu   sync.Mutex
	cond *sync.Cond // a goroutine that waits for it is durably blocked
	data []byte
	err  error  // at the end of data
	stop func() // ends the watch of the request's context
}

// take takes a frame.
func (s *stream) take(f Frame) {
	switch f.Kind {
	case Failed:
		s.head <- result{err: errors.New(string(f.Content))}
	case Response:
		resp, err := newResponse(f.Content)
		if err == nil {
			resp.Body = s
		}
		s.head <- result{resp, err}
	case Data:
		s.mu.Lock()
		s.data = append(s.data, f.Content...)
		s.mu.Unlock()
		s.cond.Broadcast()
	case End:
		err := io.EOF
		if len(f.Content) > 0 {
			err = errors.New(string(f.Content))
		}
		s.connection.forget(s.id)
		s.end(err)
	}
}

func (s *stream) end(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.cond.Broadcast()
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.data) == 0 && s.err == nil {
		s.cond.Wait()
	}
	if len(s.data) == 0 {
		return 0, s.err
	}
	n := copy(p, s.data)
	if s.data = s.data[n:]; len(s.data) == 0 {
		s.data = nil
	}
	return n, nil
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.mu.Lock()
	stop := s.stop
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
	s.cancel(errors.New("http: read on closed response body"))
	return nil
}

// cancel ends the stream, and sends Cancel unless the kelson process has ended it.
func (s *stream) cancel(err error) {
	s.mu.Lock()
	ended := s.err != nil
	s.data = nil
	s.mu.Unlock()
	s.end(err)
	if ended {
		return
	}
	s.connection.mu.Lock()
	defer s.connection.mu.Unlock()
	if s.connection.streams[s.id] == s {
		delete(s.connection.streams, s.id)
		s.connection.enqueue(Frame{Kind: Cancel, ID: s.id})
	}
}
