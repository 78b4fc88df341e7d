package explore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
)

const (
	defaultQuiet   = 5 * time.Minute
	defaultHorizon = 24 * time.Hour
	// maxDelay is after how many requests and events a delayed watch or request continues although
	// the rest is not quiet: no delay is endless in a cluster.
	maxDelay = 300
	// stepsPerSecond is how many requests and events that follow each other without a pause take a
	// second of virtual time.
	stepsPerSecond = 100
	// maxBackoff is how long controllers wait at most before they try again, with a margin.
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
	wire     *wire // nil for operators in this program
	scenario *Scenario
	env      *testenv.Env
	plan     Plan
	gate     *gate
	history  *history
	random   *rand.Rand // orders the steps; nil for the default order

	process   *process
	processes int
	all       []*process

	counts    map[Point]int    // by a Point without N
	done      []bool           // the faults of the plan that have happened
	revisions map[Point]uint64 // the revision of the store before a point
	frozen    map[string]bool
	cut       map[string]bool // resources whose watches and lists wait until all is quiet
	refused   map[string]bool // cut resources whose next watch was refused
	denied    map[string]bool // by verb and resource
	denials   bool            // something was denied, so the operator's next attempt may be late

	copies    []client.Object              // that Batch has created
	finalized []*unstructured.Unstructured // that have the foreign finalizer
	branch    *branch                      // where the run deviates from the plan; may be nil
	probe     *probe                       // collects the possible actions; nil in other runs

	mu        sync.Mutex
	forbidden []string            // O12
	panics    []string            // O3
	leases    map[client.Key]bool // that the operator has written
	own       map[string]bool     // the objects that the operator created or deleted itself

	result result
	latest *step // that was let through
	inputs int   // how many actions of users were made, with the deletions at the end
	last   bool  // no more will be made
}

// result is what a trial observed.
type result struct {
	end, left State // after the inputs; after their objects were deleted
	points    []visit
	creates   map[string]int
	deletes   map[string]int
	own       map[string]bool
	states    map[[32]byte]bool
	effect    bool // SetField has changed more than the field
	alarms    []Alarm
	steps     []string  // what happened, a line each
	times     []float64 // of the steps, in seconds since the first
	digest    [32]byte  // of the steps and of every version, in order
	unused    Plan      // the faults whose points were not reached
	orderOnly bool      // the plan has no faults but random orders
	failed    error     // the scenario itself does not work
}

// visit is a point that was reached, and the states of the run before and after it.
type visit struct {
	Point
	before, after [32]byte
	inputs        int
	removed       bool // an object was removed before
}

// run executes the trial. It must be called in a bubble, unless the operator is a Binary.
func (t *trial) run() {
	if t.wire == nil {
		defer t.watchPanics()()
	}
	t.gate = newGate()
	t.counts, t.revisions, t.done = map[Point]int{}, map[Point]uint64{}, make([]bool, len(t.plan))
	t.frozen, t.cut, t.refused, t.own = map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	t.denied, t.leases = map[string]bool{}, map[client.Key]bool{}
	for _, f := range t.plan {
		if f.Kind == Order {
			t.random = rand.New(rand.NewPCG(f.Seed, 0))
		}
	}
	t.wait() // the control plane has started
	state := t.env.Plane().Store()
	state.Gate(t.commit)
	history, err := newHistory(state)
	if err != nil {
		t.result.failed = err
		return
	}
	t.history = history
	t.history.version = t.check
	t.startProcess(nil)
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
		if !t.input(t.createWith(input)) || !t.settle() || !t.act(i+1) {
			return
		}
	}
	t.result.end = t.history.state()
	t.result.creates, t.result.deletes = copyOf(t.history.creates), copyOf(t.history.deletes)
	if t.scenario.Keep {
		return
	}
	for _, input := range slices.Backward(t.scenario.Inputs) {
		if input.apply != nil && !t.input(Delete(input.apply)) {
			return
		}
	}
	for _, obj := range slices.Backward(t.copies) {
		if !t.input(Delete(obj)) {
			return
		}
	}
	if t.settle() && t.removeFinalizers() {
		t.result.left = t.history.state()
	}
}

func copyOf(m map[string]int) map[string]int {
	c := make(map[string]int, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// input makes one input.
func (t *trial) input(i Input) bool {
	t.log("input: " + i.name)
	t.inputs++
	if i.back != nil {
		return t.flip(i)
	}
	if i.do != nil && !t.do(i) {
		return false
	}
	if i.wait > 0 {
		return t.pass(i.wait)
	}
	return true
}

// do makes an input. Meanwhile, only writes of the control plane happen, unless the input waits for
// something.
func (t *trial) do(i Input) bool {
	done := make(chan error, 1)
	go func() {
		done <- i.do(context.Background(), t.env.Client())
		t.gate.wake()
	}()
	for {
		t.wait()
		select {
		case err := <-done:
			if err != nil {
				t.result.failed = fmt.Errorf("input %q: %w", i.name, err)
			}
			return err == nil
		default:
		}
		_, step, ok := t.turn()
		if !ok {
			return false
		}
		if !step {
			t.gate.await(time.Second)
		}
	}
}

// commit lets a write wait for its turn.
func (t *trial) commit(ctx context.Context, ops []store.Op) error {
	p, _ := ctx.Value(processKey{}).(*process)
	s := &step{phase: committing, process: p, label: writeLabel(ops)}
	_, err := t.gate.wait(ctx, s)
	return err
}

// writeLabel names what a commit writes.
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
			name = "*" // it depends on which goroutine has reported an event first
		}
		b.WriteString(verb + op.Key.Resource + " " + qualified(op.Key.Namespace, name))
	}
	return b.String()
}

// settle lets the operator and the control plane work until nothing has changed for the quiet
// period, and all steps that faults delay have happened. It reports whether the trial can continue.
func (t *trial) settle() bool {
	if t.wire != nil {
		return t.settleWire()
	}
	begin, last, steps := time.Now(), time.Now(), 0
	quiet, horizon := orDefault(t.scenario.Quiet, defaultQuiet), orDefault(t.scenario.Horizon, defaultHorizon)
	for {
		changed, step, ok := t.turn()
		if !ok {
			return false
		}
		if changed {
			last = time.Now()
		}
		switch {
		case step:
			if steps++; steps%maxDelay == 0 && t.release() {
				last = time.Now()
			}
			if steps%stepsPerSecond == 0 {
				time.Sleep(time.Second) // a hot loop does not stop the clock
			}
			if steps > maxSteps {
				t.alarm("O4", "hot loop", fmt.Sprintf("%d requests and events in %v, and the operator is not quiet", steps, time.Since(begin)))
				return false
			}
		case time.Since(last) >= quiet:
			if t.denials && len(t.denied) == 0 {
				quiet, t.denials = max(quiet, maxBackoff), false
				continue
			}
			if !t.release() {
				return true
			}
			last = time.Now()
		case time.Since(begin) > horizon:
			t.alarm("O4", "never quiet", fmt.Sprintf("after %v objects still change: %s", horizon, strings.Join(t.history.recent, ", ")))
			return false
		default:
			t.gate.await(quiet - time.Since(last))
		}
	}
}

// pass lets time pass.
func (t *trial) pass(d time.Duration) bool {
	for end := time.Now().Add(d); ; {
		_, step, ok := t.turn()
		if !ok {
			return false
		}
		if left := time.Until(end); !step && left <= 0 {
			return true
		} else if !step {
			t.gate.await(left)
		}
	}
}

func orDefault(d, standard time.Duration) time.Duration {
	if d == 0 {
		return standard
	}
	return d
}

// turn waits until everything is blocked, reads what was written, and lets one step pass.
func (t *trial) turn() (changed, step, ok bool) {
	t.wait()
	if t.wire != nil && t.t.Context().Err() != nil {
		t.result.failed = t.t.Context().Err()
		return false, false, false
	}
	before := t.history.changes
	if err := t.history.read(); err != nil {
		t.result.failed = err
		return false, false, false
	}
	changed = t.history.changes > before
	if !t.running() || len(t.result.alarms) > 0 && t.result.alarms[0].fatal {
		return changed, false, false
	}
	t.turnOff()
	if t.wire == nil {
		// Generated names do not depend on other uses of random values.
		utilrand.Seed(int64(len(t.result.steps)))
	}
	if steps := t.gate.choices(t.enabled); len(steps) > 0 {
		t.latest = choose(steps, t.random)
		t.execute(t.latest)
		return changed, true, true
	}
	return changed, false, true
}

// wait waits until everything is blocked. A Binary may do something at any time, so the trial does
// not wait for it, unless it needs a choice.
func (t *trial) wait() {
	switch {
	case t.wire == nil:
		synctest.Wait()
	case t.random != nil:
		for t.gate.await(together) {
		}
	}
}

// running reports whether the operator runs. It raises an alarm if the operator has ended without
// being stopped.
func (t *trial) running() bool {
	select {
	case <-t.process.ended:
		if t.process.err == nil {
			t.process.err = errors.New("it returned without an error")
		}
		if p := (*reconcile.PanicError)(nil); errors.As(t.process.err, &p) {
			t.alarm("O3", "the operator panics", panicDetail(p))
		} else if p := (*programPanic)(nil); errors.As(t.process.err, &p) {
			t.alarm("O3", "the operator panics", p.detail)
		} else {
			t.alarm("O3", "the operator ended", t.process.err.Error())
		}
		return false
	default:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.panics) > 0 {
		t.alarm("O3", "a reconciler panics", t.panics[0])
		return false
	}
	return true
}

// enabled reports whether faults allow a step to happen now.
func (t *trial) enabled(s *step) bool {
	resource := s.call.resource
	switch {
	case s.phase == committing:
		return true
	case s.phase == delivering:
		return s.initial || !t.frozen[resource] && !t.frozen["*"]
	case s.phase == sending && t.cut[resource]:
		// The first new watch is refused, and the list after it waits.
		return s.call.watch && !t.refused[resource]
	}
	return true
}

// execute lets a step pass, or applies the fault that the plan has for it.
func (t *trial) execute(s *step) {
	v := pass
	switch s.phase {
	case sending:
		if s.point != (Point{}) {
			t.visit(&s.point)
			v = t.faultBefore(s)
		}
		if s.call.watch && t.cut[s.call.resource] {
			t.refused[s.call.resource], v = true, cut
		}
	case responding:
		if s.process.only != nil {
			s.process.kill() // the process sees that it has lost its lease
			return
		}
		if s.point != (Point{}) {
			t.visited(s.point)
			v = t.faultAfter(s)
		}
	case delivering:
		if s.point != (Point{}) {
			t.visit(&s.point)
			v = t.faultAtEvent(s)
		}
	}
	if s.held || s.phase != committing && s.process.dead {
		return
	}
	if s.phase == delivering && v == pass && !t.enabled(s) {
		return // frozen at this event: it stays
	}
	if s.phase != committing || s.process == nil {
		t.logStep(s, v)
	}
	t.gate.release(s, v)
}

// visit numbers a point that is reached for the first time, and notes the state before it.
func (t *trial) visit(p *Point) {
	if p.N > 0 {
		return // a fault has delayed it
	}
	t.counts[*p]++
	p.N = t.counts[*p]
	t.result.points = append(t.result.points, visit{Point: *p, before: t.history.sum, after: t.history.sum, inputs: t.inputs, removed: t.history.removal > 0})
	t.revisions[*p] = t.env.Plane().Store().Snapshot().Revision()
}

// visited notes the state after a write.
func (t *trial) visited(p Point) {
	for i := range slices.Backward(t.result.points) {
		if t.result.points[i].Point == p {
			t.result.points[i].after = t.history.sum
			return
		}
	}
}

// find returns the fault of one of some kinds that the plan has at a point.
func (t *trial) find(p Point, kinds ...Kind) Kind {
	for i, f := range t.plan {
		if f.At == p && !t.done[i] && slices.Contains(kinds, f.Kind) {
			t.done[i] = true
			t.log(fmt.Sprintf("FAULT %s", f))
			return f.Kind
		}
	}
	return ""
}

func (t *trial) faultBefore(s *step) verdict {
	if t.denied[s.call.verb+" "+s.call.resource] {
		return denied
	}
	switch t.find(s.point, KillBefore, Conflict, TooMany, Internal, Hold, HoldInput, TwoLeaders, Deny) {
	case KillBefore:
		t.crash(nil)
	case Conflict:
		return conflict
	case TooMany:
		t.denials = t.denials || t.wire != nil
		return tooMany
	case Internal:
		return internal
	case Hold:
		s.held = true
	case HoldInput:
		s.held, s.until = true, t.inputs+1
	case TwoLeaders:
		s.held = true
		t.gate.suspend(t.process, s)
		t.startNext(nil)
	case Deny:
		t.denied[s.call.verb+" "+s.call.resource], t.denials = true, true
		return denied
	}
	return pass
}

func (t *trial) faultAfter(s *step) verdict {
	switch t.find(s.point, KillAfter, KillStale, KillOld, Lose, SlowResponse) {
	case SlowResponse:
		s.held = true
	case KillAfter:
		t.crash(nil)
	case KillStale:
		t.crashTo(t.revisions[s.point])
	case KillOld:
		if t.history.removal == 0 {
			break // nothing was removed: a plan that was written by hand
		}
		t.crashTo(t.history.removal - 1)
	case Lose:
		return lost
	}
	return pass
}

func (t *trial) faultAtEvent(s *step) verdict {
	switch t.find(s.point, Freeze, FreezeAll, Cut) {
	case Freeze:
		t.frozen[s.call.resource] = true
	case FreezeAll:
		t.frozen["*"] = true
	case Cut:
		t.cut[s.call.resource] = true
		return cut
	}
	return pass
}

// crashTo kills the process. The cached reads of the next one show the state at a revision.
func (t *trial) crashTo(revision uint64) {
	t.frozen["*"] = true
	t.crash(t.env.ForkAt(t.t, revision, testenv.NoControllers(), testenv.Nodes(controlplane.NodeNone)).OperatorRESTConfig().Transport)
}

// crash kills the operator's process and starts the next one.
func (t *trial) crash(old http.RoundTripper) {
	t.process.kill()
	t.startNext(old)
}

// startNext starts another process of the operator. Its lists are not delayed, because it would
// give up before everything else is quiet.
func (t *trial) startNext(old http.RoundTripper) {
	clear(t.cut)
	clear(t.refused)
	t.releaseLeases()
	t.startProcess(old)
}

// release ends what faults delay, one kind after the other, and reports whether there was any.
func (t *trial) release() bool {
	switch {
	case len(t.frozen) > 0:
		clear(t.frozen)
		t.process.old = nil
		t.log("the frozen events are delivered")
	case len(t.cut) > 0:
		clear(t.cut)
		clear(t.refused)
		t.log("the lists are served")
	case len(t.denied) > 0:
		clear(t.denied)
		t.log("writes are not denied any more")
	case t.gate.unhold(t.inputs, t.last):
		t.log("the held requests continue")
	default:
		return false
	}
	return true
}

// end stops the operator and completes the result.
func (t *trial) end() {
	t.env.Plane().Store().Gate(nil)
	for _, p := range t.all {
		p.kill()
	}
	t.gate.end()
	for _, p := range t.all {
		<-p.ended
	}
	t.result.states, t.result.own = t.history.seen, t.own
	if len(t.forbidden) > 0 {
		t.alarm("O12", "refused by RBAC", strings.Join(t.forbidden, ", "))
	}
	for i, f := range t.plan {
		if !t.done[i] && f.Kind != Order {
			t.result.unused = append(t.result.unused, f)
		}
	}
	t.result.digest = digest([]any{t.result.steps, fmt.Sprintf("%x", t.history.record.Sum(nil))})
}

// answered notes the response to a request.
func (t *trial) answered(s *step, code int, body []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case code == http.StatusForbidden && strings.Contains(string(body), "cannot "+infoVerb(s.call.verb)):
		t.forbidden = append(t.forbidden, s.label)
	case code < 300 && s.call.resource == "leases.coordination.k8s.io" && s.call.write:
		namespace, name, _ := strings.Cut(s.call.object, "/")
		t.leases[client.Key{Namespace: namespace, Name: name}] = true
	case code < 300 && (s.call.verb == "create" || s.call.verb == "apply" || s.call.verb == "delete"):
		t.own[s.call.resource+" "+s.call.object] = true
	}
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

var verdictNames = map[verdict]string{pass: "", killed: " (killed)", lost: " (response lost)", conflict: " (409)", tooMany: " (429)", internal: " (500)", denied: " (403)", cut: " (watch cut)"}

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
