package explore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/lab/agent"
)

var (
	errKilled = errors.New("explore: the process was killed")
	errLost   = errors.New("explore: connection reset by peer")
)

// watchTimeout is the mean of client-go's random timeouts of watches.
const watchTimeout = 450 * time.Second

// process is one process of the operator, from its start until it is killed or the run ends. It is
// the transport of that process's clients.
type process struct {
	operator *processes
	number   int  // from 1
	dead     bool // guarded by the gate
	// only, if not nil, is the only request of the process that the server still executes. Guarded
	// by the gate.
	only *step

	cancel context.CancelFunc
	ended  chan struct{}
	err    error // of the operator; valid after ended

	// link connects to the operating system's process of a Program; nil for other operators.
	link    *agent.Link
	program *agent.Process

	// The remaining fields are for a process of a Binary.
	requests, inflight atomic.Int64 // all requests, and those that the server processes
	output             output
	mu                 sync.Mutex
	pid                int
	// dial connects to an address in the network of the process. It is nil unless the process runs.
	dial    func(address string) (net.Conn, error)
	watches map[string]int   // open ones, by resource
	missing map[string]bool  // resources whose watches do not begin again
	streams map[*stream]bool // the open watches
	// pages has the views of later pages of lists, by token.
	pages map[string]*view
}

// kill ends the process: no later request of it reaches the server.
func (p *process) kill() {
	p.operator.gate.kill(p)
	p.cancel()
	p.endProgram(nil)
}

// processKey is the context key of the process that makes a request.
type processKey struct{}

// transport passes the requests of a process to the server, through the gate.
type transport struct {
	process *process
	inner   http.RoundTripper
}

// Steady reports to the operator library that the end of a watch is always noticed.
func (t *transport) Steady() bool { return true }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	p, ctx := t.process, r.Context()
	p.requests.Add(1)
	r = r.Clone(context.WithValue(ctx, processKey{}, p))
	acceptJSON(r)
	c, err := describe(r)
	if err != nil {
		return nil, err
	}
	if c.watch {
		endWatchAtFixedTime(r)
	}
	if c.passThrough {
		switch {
		case p.operator.gate.isDead(p):
			return nil, errKilled
		case !p.operator.delays.reachable():
			return nil, errUnreachable
		}
		return t.inner.RoundTrip(r)
	}
	if c.watchList {
		p.operator.watchLists.Add(1)
	}
	if c.watchList && p.operator.setup.noWatchLists {
		return withoutWatchList(r), nil
	}
	s := &step{phase: sending, call: c, label: c.label(), process: p}
	if c.point() {
		s.point = Point{Verb: c.verb, Resource: c.resource, Object: c.object}
	}
	if c.verb == "patch" || c.verb == "apply" || c.verb == "create" {
		if s.body, err = bodyOf(r); err != nil {
			return nil, err
		}
	}
	v, err := p.operator.gate.wait(ctx, s)
	if err != nil {
		return nil, err
	}
	switch v {
	case killed:
		return nil, errKilled
	case unreachable:
		return nil, errUnreachable
	case conflict, tooMany, internal, denied, forbidden, exceeded, cut:
		return refusal(r, c, v), nil
	}
	p.inflight.Add(1)
	resp, initial, err := t.send(r, s)
	if err != nil {
		p.inflight.Add(-1)
		return nil, err
	}
	if c.watch && resp.StatusCode == http.StatusOK {
		p.inflight.Add(-1)
		resp.Body = newStream(ctx, p, c, resp.Body, initial)
		return resp, nil
	}
	// Read the whole response now, so that the server has finished when the explorer chooses the
	// next step.
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	p.inflight.Add(-1)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if s.view != nil && c.list {
		p.keepPage(s.view, body)
	}
	p.operator.observed.answered(s, resp.StatusCode, body)
	v, err = p.operator.gate.wait(ctx, &step{phase: responding, call: c, label: s.label, process: p, point: s.point})
	switch {
	case err != nil:
		return nil, err
	case v == killed:
		return nil, errKilled
	case v == lost:
		return nil, errLost
	}
	return resp, nil
}

// send sends a request to the server, or to the one with the older state that the explorer has
// chosen. For a watch that begins with an older state, it returns the number of initial events.
func (t *transport) send(r *http.Request, s *step) (resp *http.Response, initial int, err error) {
	switch {
	case s.view == nil:
		resp, err = t.inner.RoundTrip(r)
	case s.call.watch:
		return s.view.watch(r, t.inner)
	default:
		resp, err = s.view.server.RoundTrip(r)
	}
	return resp, 0, err
}

// endWatchAtFixedTime replaces the random duration after which client-go ends its watches.
func endWatchAtFixedTime(r *http.Request) {
	query := r.URL.Query()
	if query.Has("timeoutSeconds") {
		query.Set("timeoutSeconds", strconv.Itoa(int(watchTimeout.Seconds())))
		url := *r.URL
		url.RawQuery = query.Encode()
		r.URL = &url
	}
}

// isDead reports whether a process was killed.
func (g *gate) isDead(p *process) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return p.dead
}

// stands reports whether a process is dead or suspended.
func (g *gate) stands(p *process) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return p.dead || p.only != nil
}

// refusal is the response of a server that has not executed a request.
func refusal(r *http.Request, c call, v verdict) *http.Response {
	resource, name := c.resource, c.object
	group := schema.ParseGroupResource(strings.SplitN(resource, "/", 2)[0])
	var status *apierrors.StatusError
	switch v {
	case conflict:
		status = apierrors.NewConflict(group, name,
			errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	case tooMany:
		status = apierrors.NewTooManyRequests("too many requests, please try again later", 1)
	case denied:
		status = apierrors.NewForbidden(group, name,
			errors.New(`admission webhook "explore.kelson.dev" denied the request`))
	case forbidden:
		status = apierrors.NewForbidden(group, name, forbiddenMessage(r, c))
	case exceeded:
		status = apierrors.NewForbidden(group, name, exceededMessage(c))
	case cut:
		status = apierrors.NewResourceExpired("too old resource version")
	default:
		status = apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	}
	return respond(r, status)
}

// respond returns a response with a Status.
func respond(r *http.Request, status *apierrors.StatusError) *http.Response {
	status.ErrStatus.APIVersion, status.ErrStatus.Kind = "v1", "Status"
	body, err := json.Marshal(status.ErrStatus)
	if err != nil {
		panic(fmt.Sprintf("explore: encode a Status: %v", err)) // cannot happen
	}
	header := http.Header{"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))}}
	if details := status.ErrStatus.Details; details != nil && details.RetryAfterSeconds > 0 {
		header.Set("Retry-After", strconv.Itoa(int(details.RetryAfterSeconds)))
	}
	code := int(status.ErrStatus.Code)
	return &http.Response{StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)), Request: r}
}
