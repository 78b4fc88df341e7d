package explore

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/node"
	"kelson.dev/lab/agent"
)

const (
	defaultQuiet   = 5 * time.Minute
	defaultHorizon = 24 * time.Hour
	// maxDelay is the number of requests and events after which a delayed watch or request
	// continues even if the rest is not quiet: in a cluster, no delay is endless.
	maxDelay = 300
	// messageTime is the virtual time that each request, response and event takes. If messages took
	// no time, a timer that an operator sets after a request would fire exactly at the time that it
	// has computed before the request. In a cluster, such timers fire later.
	messageTime = time.Millisecond
	// stepsPerSecond is the number of requests and events, without a pause between them, after
	// which a second of virtual time passes.
	stepsPerSecond = 100
	// maxBackoff is the longest time that controllers wait before they retry, with a margin.
	maxBackoff = 20 * time.Minute
	// maxSteps bounds the requests and events between two inputs. An operator that needs more is in
	// a hot loop.
	maxSteps = 20_000
)

// trial is one run of a scenario under a plan: inside a synctest bubble or, for a Binary, in real
// time. It lets one step pass at a time, when everything else is blocked, so a run is a sequence of
// choices. What changes together is a part with a type of its own. The parts use only those above
// them in the struct, except that users and actions let the trial continue while they write.
type trial struct {
	setup    *setup     // what runs
	result   *result    // what the run has shown: steps and alarms
	observed *observed  // what goroutines of the operator report
	progress *progress  // how far the run has followed its plan
	delays   *delays    // the faults in force
	history  *history   // the versions of all objects
	gate     *gate      // the steps that wait
	order    *order     // which of them comes next
	operator *processes // the processes of the operator
	timing   *timing    // how time passes
	injector *injector  // the faults of the plan
	oracles  *oracles   // what judges the run while it happens
	users    *users     // the inputs
	actions  *actions   // the other changes of the plan
	outside  *outside   // the services outside of the cluster
	// newestDefinitions are the definitions that UpgradeDefinitions has replaced by former ones.
	newestDefinitions []*unstructured.Unstructured

	ordering atomic.Pointer[gate] // the gate, while it orders the writes of other clients
	latest   *step                // that was let through
}

// newTrial returns a trial. The fork of its setup may be set before run is called.
func newTrial(s *setup) *trial {
	t := &trial{setup: s, result: &result{cached: map[string]bool{}}, observed: newObserved(),
		history: newHistory(), progress: newProgress(s.plan), delays: newDelays(), gate: newGate(), order: &order{}}
	t.operator = &processes{setup: s, result: t.result, gate: t.gate, delays: t.delays, observed: t.observed}
	for i := range s.scenario.Others {
		t.operator.others = append(t.operator.others, &processes{setup: s, result: t.result, gate: t.gate,
			delays: t.delays, observed: t.observed, outside: t.outside, other: &s.scenario.Others[i]})
	}
	t.timing = &timing{setup: s, gate: t.gate, order: t.order, operator: t.operator}
	t.injector = &injector{setup: s, result: t.result, gate: t.gate, order: t.order, history: t.history,
		progress: t.progress, delays: t.delays, observed: t.observed, operator: t.operator}
	t.outside = newOutside(s.scenario.Services, &t.history.names)
	t.history.outside, t.injector.outside, t.operator.outside = t.outside, t.outside, t.outside
	t.oracles = &oracles{setup: s, result: t.result, history: t.history, observed: t.observed, progress: t.progress}
	t.users = &users{trial: t, setup: s, result: t.result, history: t.history, simulated: map[generationOf]bool{}}
	t.actions = &actions{trial: t, users: t.users, setup: s, result: t.result, history: t.history}
	return t
}

// run executes the trial. It must be called in a bubble, unless the operator is a Binary.
func (t *trial) run() {
	if t.setup.wire == nil {
		defer t.observed.watchPanics()()
	}
	if t.setup.virtual != nil {
		var err error
		if t.timing.clock, err = agent.NewClock(); err != nil {
			t.result.failed = err
			return
		}
		defer t.timing.clock.Stop()
		defer t.operator.passWebhooks()()
	}
	for _, f := range t.setup.plan {
		switch f.Kind {
		case Order:
			t.order.random = rand.New(rand.NewPCG(f.Seed, 0))
		case Priorities:
			t.order.priorities = newPriorities(f.Seed)
		}
	}
	if t.setup.plan.has(ofFormer...) && !t.setup.scenario.hasFormer() {
		t.result.failed = errNoFormer
		return
	}
	if t.setup.plan.has(TimeZone) && t.setup.virtual == nil {
		t.result.failed = errNoZone
		return
	}
	t.timing.wait() // the control plane has started
	if t.setup.plan.has(UpgradeDefinitions) {
		if err := t.installFormer(); err != nil {
			t.result.failed = err
			return
		}
	}
	state := t.setup.env.Plane().Store()
	state.Gate(t.commit)
	t.ordering.Store(t.gate)
	if err := t.history.begin(state); err != nil {
		t.result.failed = err
		return
	}
	t.history.version, t.history.keepAll = t.check, t.setup.keepAll
	t.history.listening, t.history.names.periodic = t.setup.learning, t.setup.periodic
	t.history.names.random = t.setup.random
	if t.operator.variant = t.setup.plan.begin(); t.operator.variant != newest {
		t.result.log(string(t.operator.variant) + " starts")
	}
	for _, op := range t.operator.operators() {
		op.startProcess()
	}
	if t.settle() {
		t.operator.started()
		t.users.makeInputs()
	}
	t.end()
}

// commit makes a write wait until the explorer lets it pass.
func (t *trial) commit(ctx context.Context, ops []store.Op) error {
	p, _ := ctx.Value(processKey{}).(*process)
	if p == nil {
		t.operator.noteLeases(ops)
	}
	s := &step{phase: committing, process: p, label: writeLabel(ops)}
	if claim := claimOf(ops); claim != "" && p == nil {
		s.point = Point{Verb: provision, Resource: "persistentvolumeclaims", Object: claim}
	}
	_, err := t.gate.wait(ctx, s)
	return err
}

// orderRequests wraps the transport of the control plane's own controllers and of users, so that
// their writes reach the server one after the other. Values that the server allocates, such as
// names, then do not depend on the order of goroutines. The response comes after the events of the
// write: Kubernetes' EndpointSlice controller does more if an event is the first.
func (t *trial) orderRequests(inner http.RoundTripper) http.RoundTripper {
	return ordered{&t.ordering, inner}
}

type ordered struct {
	gate  *atomic.Pointer[gate] // nil inside means that writes pass
	inner http.RoundTripper
}

// Steady reports to the operator library that the end of a watch is always noticed.
func (o ordered) Steady() bool { return true }

// RoundTrip implements http.RoundTripper.
func (o ordered) RoundTrip(r *http.Request) (*http.Response, error) {
	gate := o.gate.Load()
	if gate == nil || r.Method == http.MethodGet || r.Method == http.MethodHead ||
		r.Context().Value(processKey{}) != nil {
		return o.inner.RoundTrip(r)
	}
	s := &step{phase: ordering, label: r.Method + " " + r.URL.Path, late: strings.Contains(r.URL.Path, "/events")}
	if name, ok := strings.CutPrefix(r.UserAgent(), node.UserAgent); ok {
		s.node = name
	}
	if _, err := gate.wait(r.Context(), s); err != nil {
		return nil, err
	}
	r = r.Clone(r.Context()) // a transport must not change the caller's request
	if err := sortEndpoints(r); err != nil {
		return nil, err
	}
	resp, err := o.inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if _, err := gate.wait(r.Context(), &step{phase: ordering, label: s.label, late: s.late}); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// claimOf returns the claim for which a commit creates a volume, or "".
func claimOf(ops []store.Op) string {
	for _, op := range ops {
		if op.Key.Resource != "persistentvolumes" || op.Data == nil || op.Expect != 0 {
			continue
		}
		var volume corev1.PersistentVolume
		if json.Unmarshal(op.Data, &volume) == nil && volume.Spec.ClaimRef != nil {
			return qualified(volume.Spec.ClaimRef.Namespace, volume.Spec.ClaimRef.Name)
		}
	}
	return ""
}

// writeLabel returns the label of the step of a commit.
func writeLabel(ops []store.Op) string {
	var b strings.Builder
	for _, op := range ops {
		verb := "write "
		switch {
		case op.Check:
			continue
		case op.Data == nil:
			verb = "delete "
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		name := op.Key.Name
		if background.Has(op.Key.Resource) {
			name = "*" // the name depends on which goroutine has reported an event first
		}
		b.WriteString(verb + op.Key.Resource + " " + qualified(op.Key.Namespace, name))
	}
	return b.String()
}

// end stops the operator and completes the result.
func (t *trial) end() {
	t.setup.env.Plane().Store().Gate(nil)
	t.ordering.Store(nil)
	for _, op := range t.operator.operators() {
		for _, p := range op.all {
			p.kill()
		}
	}
	t.gate.end()
	for _, op := range t.operator.operators() {
		for _, p := range op.all {
			<-p.ended
		}
		t.result.sentWatchLists = t.result.sentWatchLists || op.watchLists.Load() > 0
	}
	t.result.several = len(t.operator.others) > 0
	t.result.states, t.result.ownObjects, t.result.versions = t.history.seen, t.observed.ownObjects, t.history.all
	if len(t.observed.forbidden) > 0 {
		t.result.alarm("O12", "refused by RBAC", strings.Join(t.observed.forbidden, "\n"))
	}
	if t.setup.virtual != nil {
		t.setup.virtual.noteUnanswered(t.outside.unanswered)
	}
	for i, f := range t.setup.plan {
		if !t.progress.done[i] && !f.Kind.isOrder() {
			t.result.unused = append(t.result.unused, f)
		}
	}
	t.result.digest = digest([]any{t.result.steps, fmt.Sprintf("%x", t.history.record.Sum(nil))})
}

func infoVerb(verb string) string {
	if verb == "apply" {
		return "patch"
	}
	return verb
}

var verdictNames = map[verdict]string{pass: "", killed: " (killed)", lost: " (response lost)", conflict: " (409)",
	tooMany: " (429)", internal: " (500)",
	denied: " (403)", cut: " (watch cut)", unreachable: " (connection refused)", forbidden: " (403, RBAC)",
	exceeded: " (403, quota)", unavailable: " (503)"}
