package explore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/node"
	"kelson.dev/lab/agent"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
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
// time.
type trial struct {
	began    time.Time // the first step
	t        testing.TB
	wire     *wire        // nil for operators in this program, and for a Program
	virtual  *virtual     // nil unless the operator is a Program
	clock    *agent.Clock // nil unless the operator is a Program
	scenario *Scenario
	// allRights gives the operator all rights instead of those of the scenario.
	allRights bool
	env       *testenv.Env
	plan      Plan
	gate      *gate
	ordering  atomic.Pointer[gate] // the gate, while it orders the writes of other clients
	history   *history
	random    *rand.Rand  // orders the steps; nil for the default order
	order     *priorities // orders the steps; nil for another order

	process *process
	newest  atomic.Pointer[process] // the same, for other goroutines
	missed  atomic.Int64            // number of calls of webhooks while no process listened
	// sharedLeases is true after another client than the operator has written a Lease.
	sharedLeases atomic.Bool
	processes    int
	all          []*process

	progress progress
	delays   delays
	observed observed

	occupied  *occupation              // of the plan; nil before it happens
	mutating  *step                    // the creation before which Mutate happens; nil for none
	users     map[string]client.Client // of inputs that act as another user
	refusals  int                      // how many changes of try the server has refused
	simulated map[generationOf]bool    // on which simulated operators have acted
	// simulating is true while one acts.
	simulating bool

	foreign *foreign // the plan's write of another client; nil for none
	variant variant  // of the processes that start
	stopped bool     // no process of the operator runs
	// when the stopped operator starts again; zero if resume is called
	restartAt      time.Time
	silent         string                       // the Node whose agent is cut off; "" for none
	paused         bool                         // all steps of the operator are held
	unusual        bool                         // the operator may return errors for a field
	copies         []client.Object              // that Batch has created
	finalized      []*unstructured.Unstructured // that have the foreign finalizer
	earlierCrashes map[moment]bool              // crashes of earlier runs
	branch         *branch                      // where the run leaves the plan; may be nil
	keepAll        bool                         // the run must set result.versions
	noWatchLists   bool                         // the server refuses watches that begin with a list
	// what differs between runs without faults; nil before these are complete
	varying    *expected
	watchLists atomic.Int64 // number of these watches
	probe      *probe       // collects the possible actions; nil in other runs

	result result
	latest *step // that was let through
	inputs int   // how many actions of users were made, with the deletions at the end
	waits  []waiting
	last   bool // all inputs were made
}

// result holds the observations of a trial.
type result struct {
	end, left      State // after the inputs; after their objects were deleted
	points         []visit
	counts         counter // until the end of the inputs
	ownObjects     map[string]bool
	states         map[[32]byte]bool
	effect         bool              // SetField has changed more than the field
	failing        map[string]string // the errors that persist, by controller and object
	failingCopies  []string          // the keys in failing that are copies of Batch
	cached         map[string]bool   // resources of the reads that may return an older state
	sawOld         bool              // a read after a stale restart has returned an older state
	sentWatchLists bool              // the operator has sent watches that begin with a list
	foreign        string            // the value of a foreign write's field, as JSON; "" for none
	crashes        []moment          // after the last fault
	pruned         bool              // the run ended at a crash that an earlier run also had
	alarms         []Alarm
	steps          []string  // the events of the run, a line each
	times          []float64 // of the steps, in seconds since the first
	digest         [32]byte  // of the steps and of every version, in order
	versions       []string  // all versions, in order; nil unless trial.keepAll
	unused         Plan      // the faults whose points were not reached
	orderOnly      bool      // random orders are the only faults of the plan
	failed         error     // the scenario itself does not work
}

// waiting is the beginning of an input that lets time pass.
type waiting struct {
	begin time.Time
	state State
}

// visit is a point that the run has reached, with the states before and after it.
type visit struct {
	Point
	before, after [32]byte
	inputs        int
	removed       bool        // an object was removed before
	creates       bool        // a request that creates an object
	generated     bool        // the server generates its name
	first         bool        // of its resource that creates an object
	foreign       []variation // the changes that ForeignWrite may make; only of runs without faults
}

// run executes the trial. It must be called in a bubble, unless the operator is a Binary.
func (t *trial) run() {
	if t.wire == nil {
		defer t.watchPanics()()
	}
	if t.virtual != nil {
		var err error
		if t.clock, err = agent.NewClock(); err != nil {
			t.result.failed = err
			return
		}
		defer t.clock.Stop()
		defer t.passWebhooks()()
	}
	t.gate = newGate()
	t.progress = progress{counts: map[Point]int{}, revisions: map[Point]uint64{},
		created: map[string]bool{}, done: make([]bool, len(t.plan))}
	t.delays.start()
	t.observed.start()
	t.result.cached, t.simulated = map[string]bool{}, map[generationOf]bool{}
	for _, f := range t.plan {
		switch f.Kind {
		case Order:
			t.random = rand.New(rand.NewPCG(f.Seed, 0))
		case Priorities:
			t.order = newPriorities(f.Seed)
		}
	}
	if t.plan.has(ofFormer...) && !t.scenario.hasFormer() {
		t.result.failed = errNoFormer
		return
	}
	if t.plan.has(TimeZone) && t.virtual == nil {
		t.result.failed = errNoZone
		return
	}
	t.wait() // the control plane has started
	state := t.env.Plane().Store()
	state.Gate(t.commit)
	t.ordering.Store(t.gate)
	history, err := newHistory(state)
	if err != nil {
		t.result.failed = err
		return
	}
	t.history = history
	t.history.version, t.history.keepAll = t.check, t.keepAll
	if t.variant = t.plan.begin(); t.variant != newest {
		t.log(string(t.variant) + " starts")
	}
	t.startProcess()
	if t.settle() {
		t.started()
		t.makeInputs()
	}
	t.end()
}

// makeInputs makes the inputs, and deletes their objects at the end.
func (t *trial) makeInputs() {
	for i, input := range t.scenario.Inputs {
		t.last = i == len(t.scenario.Inputs)-1
		made := t.makeInput(i+1, func() bool { return t.input(t.createWith(input)) })
		if !made || !t.settle() || !t.observeForeign() || !t.act(i+1) {
			return
		}
	}
	t.result.end = t.history.state()
	t.result.counts = maps.Clone(t.history.counts)
	if t.scenario.Keep {
		return
	}
	if t.makeInput(len(t.scenario.Inputs)+1, t.deleteInputs) && t.settle() && t.removeFinalizers() {
		t.result.left = t.history.state()
	}
}

// deleteInputs deletes the objects of the inputs, and the copies of Batch.
func (t *trial) deleteInputs() bool {
	for _, input := range slices.Backward(t.scenario.Inputs) {
		if input.apply != nil && !t.input(Delete(input.apply)) {
			return false
		}
	}
	for _, obj := range slices.Backward(t.copies) {
		if !t.input(Delete(obj)) {
			return false
		}
	}
	return true
}

// input makes one input.
func (t *trial) input(i Input) bool {
	t.log("input: " + i.name)
	t.inputs++
	if i.back != nil {
		return t.flip(i)
	}
	if i.fields != nil {
		return t.changeFields(i)
	}
	if i.do != nil && !t.do(i) {
		return false
	}
	if i.wait > 0 {
		t.waits = append(t.waits, waiting{time.Now(), t.history.state()})
		return t.pass(i.wait)
	}
	return true
}

// do makes an input. While it runs, only the control plane writes, unless the input waits.
func (t *trial) do(i Input) bool {
	done := make(chan error, 1)
	begin := time.Now()
	user, err := t.clientOf(i)
	if err != nil {
		t.result.failed = err
		return false
	}
	go func() {
		done <- i.do(context.Background(), user)
		t.gate.wake()
	}()
	for {
		t.wait()
		select {
		case err := <-done:
			if err != nil {
				t.result.failed = fmt.Errorf("input %q: %w%s", i.name, err, t.changedByWebhooks(err))
			}
			return err == nil
		default:
		}
		_, step, ok := t.turn()
		if !ok {
			return false
		}
		if !step {
			if time.Since(begin) > t.patience()/2 && (t.release() || t.stopped && t.resume()) {
				begin = time.Now() // the user waits for the end of a fault
			}
			t.await(time.Second)
		}
	}
}

// patience is how long a user tries to create an object again that is being deleted.
func (t *trial) patience() time.Duration {
	if t.wire != nil {
		return wireHorizon
	}
	return 10 * time.Minute
}

// commit makes a write wait until the explorer lets it pass.
func (t *trial) commit(ctx context.Context, ops []store.Op) error {
	p, _ := ctx.Value(processKey{}).(*process)
	if p == nil {
		t.noteLeases(ops)
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
	return ordered{t, inner}
}

type ordered struct {
	trial *trial
	inner http.RoundTripper
}

// Steady reports to the operator library that the end of a watch is always noticed.
func (o ordered) Steady() bool { return true }

// RoundTrip implements http.RoundTripper.
func (o ordered) RoundTrip(r *http.Request) (*http.Response, error) {
	gate := o.trial.ordering.Load()
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
	t.env.Plane().Store().Gate(nil)
	t.ordering.Store(nil)
	for _, p := range t.all {
		p.kill()
	}
	t.gate.end()
	for _, p := range t.all {
		<-p.ended
	}
	t.result.sentWatchLists = t.watchLists.Load() > 0
	t.result.states, t.result.ownObjects, t.result.versions = t.history.seen, t.observed.ownObjects, t.history.all
	if len(t.observed.forbidden) > 0 {
		t.alarm("O12", "refused by RBAC", strings.Join(t.observed.forbidden, "\n"))
	}
	for i, f := range t.plan {
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

func (t *trial) log(line string) {
	if len(t.result.steps) == 0 {
		t.began = time.Now()
	}
	t.result.steps = append(t.result.steps, line)
	t.result.times = append(t.result.times, time.Since(t.began).Seconds())
}

var verdictNames = map[verdict]string{pass: "", killed: " (killed)", lost: " (response lost)", conflict: " (409)",
	tooMany: " (429)", internal: " (500)",
	denied: " (403)", cut: " (watch cut)", unreachable: " (connection refused)", forbidden: " (403, RBAC)",
	exceeded: " (403, quota)"}

func (t *trial) logStep(s *step, v verdict) {
	what := "request: "
	switch s.phase {
	case committing:
		what = "server: "
	case responding:
		what = "response: "
	case delivering:
		what = "event: "
	}
	t.log(what + t.history.names.text(s.label) + verdictNames[v])
}
