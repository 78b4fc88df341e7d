package explore

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"
	"k8s.io/apimachinery/pkg/util/sets"
)

// The faults at calls of services, beside those of other writes. The verb of their points is the
// method of the request, in upper case, or CALL or QUERY for gRPC, the resource is the address of
// the service, and the object the path.
const (
	// Refuse has the connection of a call end before the service executes it, and those of all
	// later calls of the service, until everything else is quiet.
	Refuse Kind = "refuse"
	// Unavailable answers a call with 503, or UNAVAILABLE for gRPC, without executing it.
	Unavailable Kind = "5xx"
)

// onCalls are the kinds of faults at calls that change something, and onQueries those at the
// others.
var (
	onCalls   = []Kind{KillBefore, KillAfter, Lose, Refuse, Unavailable, SlowResponse, Hold}
	onQueries = []Kind{Refuse, Unavailable, SlowResponse}
)

// maxQueries is how many equal queries of a run are points. Operators poll.
const maxQueries = 2

// queries are the methods of calls that change nothing.
var queries = sets.New(http.MethodGet, http.MethodHead, http.MethodOptions, queryVerb)

// isCall reports whether the point is a call of a service. The verbs of Kubernetes are in lower
// case.
func (p Point) isCall() bool { return p.Verb != "" && p.Verb == strings.ToUpper(p.Verb) }

// outside has the services of a run. Its methods may be called by any goroutine.
type outside struct {
	all   []Service
	names *names // of the run's objects

	mu     sync.Mutex
	states map[string]string // of the services, by address
	given  map[*Answer]int
	// left has what the calls have left, by URL: the last call that sets or deletes what is there,
	// or the different calls that add something.
	left map[string][]executed
	// added counts the calls that add something, by their verb and the URL.
	added      map[string]int
	unanswered []string // requests for which there was no answer
}

// executed is a call that a service has executed.
type executed struct {
	Method string
	Body   any
}

func newOutside(services []Service, n *names) *outside {
	return &outside{all: services, names: n, states: map[string]string{}, given: map[*Answer]int{},
		left: map[string][]executed{}, added: map[string]int{}}
}

// execute executes a request, and returns the answer; nil if there is none.
func (o *outside) execute(method string, u *url.URL, body []byte) *Answer {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.all {
		s := &o.all[i]
		if !s.serves(u) || s.methods != nil && s.methods[u.Path] == nil {
			continue
		}
		key := s.pattern + s.prefix
		below := strings.TrimPrefix(u.Path, s.prefix)
		for j := range s.Answers {
			a := &s.Answers[j]
			if !a.matches(method, below, o.states[key], o.given[a]) {
				continue
			}
			o.given[a]++
			if a.Becomes != nil {
				o.states[key] = *a.Becomes
			}
			if !queries.Has(method) && a.Status < http.StatusBadRequest && a.Code == codes.OK {
				o.note(method, s.methods[u.Path], s.nameOf(u)+pathSeparators.Replace(u.EscapedPath()), decodeCall(body))
			}
			return a
		}
	}
	line := method + " " + o.nameOf(u) + u.EscapedPath()
	if !slices.Contains(o.unanswered, line) {
		o.unanswered = append(o.unanswered, line)
	}
	return nil
}

// note records what a call has left. grpc is nil for calls of other services.
func (o *outside) note(method string, grpc protoreflect.MethodDescriptor, id string, body any) {
	call := executed{method, body}
	switch {
	case grpc == nil && method != http.MethodPost:
		o.left[id] = []executed{call}
		return
	case !slices.ContainsFunc(o.left[id], func(other executed) bool { return digest(other) == digest(call) }):
		o.left[id] = append(o.left[id], call)
	}
	if grpc == nil || adds(grpc) {
		o.added[method+" "+id]++
	}
}

// decodeCall returns the body of a call: the value of JSON, or a text.
func decodeCall(body []byte) any {
	var v any
	switch {
	case len(body) == 0:
		return nil
	case json.Unmarshal(body, &v) == nil:
		return v
	}
	return string(body)
}

// objects adds what the calls have left to a state.
func (o *outside) objects(to map[string][]map[string]any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, calls := range o.left {
		for _, c := range calls {
			object := map[string]any{"method": c.Method}
			if c.Body != nil {
				object["body"] = o.names.value(c.Body, 0)
			}
			to[id] = append(to[id], object)
		}
		sortByText(to[id])
	}
}

// counted returns how often something was added, by the verb of the call and the URL.
func (o *outside) counted() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.added)
}

// digest identifies the state of the services. It is zero at the beginning.
func (o *outside) digest() (sum [32]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.states)+len(o.left) == 0 {
		return sum
	}
	return digest([]any{o.states, o.left})
}

// calling passes the requests of a process to services, through the gate.
type calling struct{ process *process }

// RoundTrip implements http.RoundTripper.
func (c calling) RoundTrip(r *http.Request) (*http.Response, error) {
	p, ctx := c.process, r.Context()
	op := p.operator
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	method, isGRPC := op.outside.method(r.URL)
	s := op.outside.step(p, r, method)
	v, err := op.gate.wait(ctx, s)
	switch {
	case err != nil:
		return nil, err
	case v == killed:
		return nil, errKilled
	case isGRPC && (v == unreachable || v == unavailable):
		return grpcStatus(r, codes.Unavailable, errUnreachable.Error()), nil
	case v == unreachable:
		return nil, errUnreachable
	case v == unavailable:
		return plainResponse(r, http.StatusServiceUnavailable, http.Header{}, nil), nil
	}
	if method != nil {
		if body, err = decodeRequest(method, r.Header, body); err != nil {
			return grpcStatus(r, codes.Internal, "kelson: "+err.Error()), nil
		}
	}
	answer := op.outside.execute(s.call.verb, r.URL, body)
	if answer != nil {
		if err := wait(ctx, answer.Delay); err != nil {
			return nil, err
		}
	}
	v, err = op.gate.wait(ctx, &step{phase: responding, call: s.call, label: s.label, process: p, point: s.point})
	switch {
	case err != nil:
		return nil, err
	case v == killed:
		return nil, errKilled
	case isGRPC && (v == lost || answer != nil && answer.Fails):
		return grpcStatus(r, codes.Unavailable, errLost.Error()), nil
	case isGRPC && (method == nil || answer == nil):
		return grpcStatus(r, codes.Unimplemented, "kelson: the service has no answer"), nil
	case isGRPC:
		return answer.respondGRPC(r, method)
	case v == lost || answer != nil && answer.Fails:
		return nil, errLost
	case answer == nil:
		return plainResponse(r, http.StatusNotFound, http.Header{}, nil), nil
	}
	return answer.respond(r)
}

// nameOf returns the address of a service, with the label of a URL for *.
func (s *Service) nameOf(u *url.URL) string {
	label, _, _ := strings.Cut(u.Host, ".")
	return strings.Replace(s.name, "*", label, 1)
}

// nameOf returns the address of the service of a URL, or of its host if no service has the path.
func (o *outside) nameOf(u *url.URL) string {
	for i := range o.all {
		if o.all[i].serves(u) {
			return o.all[i].nameOf(u)
		}
	}
	host := u.Host
	if standard := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]; standard != "" {
		host = strings.TrimSuffix(host, standard)
	}
	return u.Scheme + "://" + host
}

// step returns the step of a call. grpc is nil for calls of other services.
func (o *outside) step(p *process, r *http.Request, grpc protoreflect.MethodDescriptor) *step {
	object, verb := pathSeparators.Replace(r.URL.EscapedPath()), r.Method
	if grpc != nil {
		if verb = callVerb; isQuery(grpc) {
			verb = queryVerb
		}
	}
	c := call{verb: verb, resource: o.nameOf(r.URL), object: object, write: !queries.Has(verb)}
	return &step{phase: sending, call: c, label: c.label(), process: p,
		point: Point{Verb: c.verb, Resource: c.resource, Object: c.object}}
}

// pathSeparators escapes the characters in a path that end a fault or an argument of a shell.
var pathSeparators = strings.NewReplacer(";", "%3B", "'", "%27")

// wait waits until d has passed, or the context ends.
func wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// callBefore returns the fate of a call of a service before the service executes it.
func (in *injector) callBefore(s *step) verdict {
	if in.delays.closed[s.call.resource] {
		return unreachable
	}
	switch in.find(s.point, KillBefore, Refuse, Unavailable, Hold).Kind {
	case KillBefore:
		in.crash(s.process.operator)
	case Hold:
		s.held = true
	case Refuse:
		in.delays.closed[s.call.resource], in.delays.denials = true, true
		return unreachable
	case Unavailable:
		in.delays.denials = in.delays.denials || s.point.N > manyAttempts
		return unavailable
	}
	return pass
}

// noteCall records what a call has left.
func (in *injector) noteCall(s *step) {
	in.history.noteCalls()
	if s.call.verb == http.MethodPost || s.call.verb == callVerb {
		in.observed.mu.Lock()
		defer in.observed.mu.Unlock()
		in.observed.ownObjects[s.call.verb+" "+s.call.resource+s.call.object] = true
	}
}
