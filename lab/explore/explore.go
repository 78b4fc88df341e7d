// Package explore searches for the faults of processes, networks and API servers that an operator
// does not survive.
//
//	func TestExplore(t *testing.T) {
//		explore.Run(t, explore.Scenario{
//			Env:      []testenv.Option{testenv.CRDs("../config/crd"), testenv.Nodes(controlplane.Simulated{})},
//			Operator: explore.Parts(controller.Parts()...),
//			Inputs:   []explore.Input{explore.Create(sample())},
//		})
//	}
//
// Run first runs the operator without faults and records its writes and the events that it
// receives. Then it runs the operator again and again, each time on a fork of the same control
// plane, in virtual time, and with one fault at one of these points: it kills the process before or
// after a write, loses a response, delays or ends a watch, and so on (see [Kind]). After that it
// tries several faults at a time and random orders, until the time is over. A run is a sequence of
// choices: every request, response and event waits until the explorer lets it pass, when everything
// else is blocked. Equal plans give equal runs.
//
// The oracles compare a run with the run without faults: the objects at the end, how often the
// operator created and deleted each object, and the objects that remain after a user deleted the
// inputs. They also report an operator that ends, panics, never becomes quiet, reports an
// observedGeneration that does not exist, sends requests that RBAC refuses, overwrites a change of
// another client that it has not seen, or violates an invariant of the scenario.
//
// An alarm comes with the shortest plan that causes it. [Replay] runs that plan again.
package explore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// PlanVariable is the environment variable that makes Run replay one plan. ForVariable is the
// environment variable with the duration of Run, as a Go duration.
const (
	PlanVariable = "KELSON_EXPLORE_PLAN"
	ForVariable  = "KELSON_EXPLORE_FOR"
)

// defaultFor bounds how long Run and Explore explore.
const defaultFor = 10 * time.Second

// PlansVariable is the environment variable that bounds how many plans Run and Drive try.
const PlansVariable = "KELSON_EXPLORE_PLANS"

// Run explores a scenario, and fails the test with each alarm that it finds. It tries all plans
// with a single fault, for at most ten seconds. With the environment variable KELSON_EXPLORE_FOR,
// such as "2m", it explores that long, with several faults at a time and random orders.
//
// With the environment variable KELSON_EXPLORE_PLAN it replays that plan instead. With
// KELSON_EXPLORE_REPEAT=1000 it runs one plan that often, and fails if the histories differ.
func Run(t *testing.T, s Scenario) {
	t.Helper()
	if text := os.Getenv(RepeatVariable); text != "" {
		runs, err := strconv.Atoi(text)
		if err != nil || runs < 2 {
			t.Fatalf("explore: %s=%q is not a number of at least 2", RepeatVariable, text)
		}
		repetition, err := Repeat(t, s, os.Getenv(PlanVariable), runs)
		require.NoErrorf(t, err, "explore")
		if t.Log(repetition); repetition.Unequal > 0 {
			t.Fail()
		}
		return
	}
	if text := os.Getenv(PlanVariable); text != "" {
		Replay(t, s, text)
		return
	}
	options, err := optionsOf(os.Getenv)
	require.NoErrorf(t, err, "explore")
	options.OneFault = options.For == 0
	report, err := Explore(t, s, options)
	require.NoErrorf(t, err, "explore")
	t.Log(report.Summary())
	for _, alarm := range report.Alarms {
		t.Errorf("%s", alarm.describe(t.Name()))
	}
}

// Replay runs one plan, and fails the test if it raises an alarm. The text is a plan, in the form
// in which alarms print it.
func Replay(t *testing.T, s Scenario, text string) {
	t.Helper()
	r, alarms, _, err := replay(t, s, text)
	require.NoErrorf(t, err, "explore")
	if len(alarms) > 0 {
		t.Errorf("%s", alarms[0].describe(t.Name()))
	}
	if testing.Verbose() {
		t.Log(strings.Join(r.steps, "\n"))
	}
}

// replay runs one plan, after the runs without faults. The first alarm explains most.
func replay(t *testing.T, s Scenario, text string) (*result, []Alarm, *baseline, error) {
	t.Helper()
	plan, err := ParsePlan(text)
	if err != nil {
		return nil, nil, nil, err
	}
	e, err := newExplorer(t, s)
	if err != nil {
		return nil, nil, nil, err
	}
	defer e.close()
	return e.replay(plan)
}

func (e *explorer) replay(plan Plan) (*result, []Alarm, *baseline, error) {
	reference, err := e.reference()
	if a := (*alarmed)(nil); len(plan) == 0 && errors.As(err, &a) && a.reported() {
		return a.run, a.alarms, &baseline{first: a.run}, nil
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if len(plan) == 0 && len(reference.alarms) > 0 {
		return reference.first, reference.alarms, reference, nil
	}
	r, alarms, seen := e.repeated(plan, reference.outcomes)
	switch {
	case r.failed != nil:
		return nil, nil, nil, r.failed
	case len(r.unused) > 0:
		return nil, nil, nil, fmt.Errorf("the run does not reach the point of: %s; the operator's requests or the inputs have changed since the plan was found, so explore again", r.unused)
	}
	for i := range alarms {
		alarms[i].complete(plan, r, reference.first, seen, e.repetitions())
	}
	return r, alarms, reference, nil
}

// explorer runs the trials of one scenario, one after the other.
type explorer struct {
	t        *testing.T // nil if the operator is a Binary
	wire     *wireExplorer
	virtual  *virtual // nil unless the operator is a Program
	ctx      context.Context
	failure  string // with which the test has failed
	scenario Scenario
	base     *testenv.Env
	variants map[string]*result // results of runs with only actions, by plan
	keepAll  bool               // runs keep all versions, so that differences can be found
	// withoutWatchLists makes the server refuse watches that begin with a list in all runs.
	withoutWatchLists bool
	// learning makes the runs find periodic writes; periodic has those that they have found.
	learning  bool
	periodic  *periodic
	random    []randomName // the random names that the operator chooses
	numbers   int          // added to the numbers of the processes of a run
	ordered   bool         // the baseline contains runs in random orders
	allRights bool         // the operator has all rights, because it lacks some without any fault
	// former has the definitions of the former version, and definitionsDiffer says that they are
	// not those of this version.
	former            []*unstructured.Unstructured
	definitionsDiffer bool
	// what differs between the runs without faults; nil before these are complete
	varying *expected
	crashes map[moment]bool // of runs without alarms; nil if no run ends early
}

// close stops the programs and servers that newExplorer has started.
func (e *explorer) close() {
	if e.wire != nil {
		e.wire.scope.end()
	}
	if e.virtual != nil {
		e.virtual.close()
	}
}

func newExplorer(t *testing.T, s Scenario) (*explorer, error) {
	t.Helper()
	return (&explorer{t: t, ctx: t.Context()}).start(s)
}

// start prepares the base, and runs the operator for the first time.
func (e *explorer) start(s Scenario) (*explorer, error) {
	t := e.t
	if s.Binary != nil {
		return newWireExplorer(t.Context(), s)
	}
	if err := s.validate(); err != nil {
		return nil, err
	}
	makeDeterministic(t)
	e.scenario, e.variants = s, map[string]*result{}
	if s.Program != nil {
		var err error
		if e.virtual, err = newVirtual(&s); err != nil {
			return nil, err
		}
		t.Cleanup(e.virtual.close)
		context.AfterFunc(e.ctx, e.virtual.interrupt)
	}
	// The runs fork the base in bubbles of their own. The state of the base remains after its
	// bubble has ended.
	synctest.Test(t, func(inner *testing.T) {
		startClock()
		t := noting{inner, &e.failure}
		e.base = testenv.New(t, s.Env...)
		e.base.Settle(t)
		require.NoErrorf(t, setConversions(t.Context(), e.base.Client(), s.conversions), "explore")
		require.NoErrorf(t, e.base.TrustWebhooks(t.Context()), "explore")
		if e.virtual != nil && testenv.HasWebhooks(e.base.OperatorContext(t.Context())) {
			require.NoErrorf(t, e.base.WriteWebhookCertificate(t.Context(), e.virtual.certificates), "explore")
		}
		if s.Prepare != nil {
			require.NoErrorf(t, s.Prepare(t.Context(), e.base.Client()), "explore: prepare")
			e.base.Settle(t)
		}
		setNamespaces(e.base, s.Inputs)
		require.NoErrorf(t, e.compareDefinitions(t.Context()), "explore")
	})
	if err := e.checkServed(); err != nil {
		return nil, err
	}
	// The first run in a program fills caches that later runs share, such as those of type
	// converters and CEL programs. Meanwhile, goroutines may run in another order.
	first := e.learn()
	if e.virtual != nil && first.failed != nil {
		return nil, first.failed
	}
	e.learnRandomNames(first)
	return e, nil
}

// checkServed returns an error if the scenario names a kind that the control plane does not serve.
func (e *explorer) checkServed() error {
	served := e.base.Plane().Registry().Current().All()
	if err := checkKinds(e.scenario.Invariants, served); err != nil {
		return err
	}
	if err := checkIgnored(e.scenario.Ignore, served); err != nil {
		return err
	}
	return checkSimulated(e.scenario.Simulated, served)
}

// noting is a test that notes the error with which it fails.
type noting struct {
	*testing.T
	failure *string
}

func (n noting) Fatalf(format string, args ...any) {
	n.Helper()
	*n.failure = fmt.Sprintf(format, args...)
	n.T.Fatalf(format, args...)
}

func (n noting) Fatal(args ...any) {
	n.Helper()
	*n.failure = fmt.Sprint(args...)
	n.T.Fatal(args...)
}

// errLeft means that an operator has left goroutines behind.
var errLeft = errors.New("the operator has started goroutines that do not end with its process, such as one that waits for a certificate or uses context.Background(). " +
	"So its processes cannot be killed here: explore its program as a process, with kelson explore --process or Scenario.Binary")

// startClock moves the clock of a bubble away from whole seconds. The creation times of objects are
// whole seconds, so an object is never exactly zero seconds old, as in a cluster. Kubernetes'
// ReplicaSet controller divides by the age of a Pod.
func startClock() { time.Sleep(437137 * time.Microsecond) }

// expireTimers lets the timers of a bubble expire that the operator and the control plane have
// left. Kubernetes' scheduler passes a channel to signal.Notify and never stops that. So the
// program references the channel, its bubble, and the timers of the bubble, which would reference
// the whole control plane.
func expireTimers() { time.Sleep(maxTimer) }

// maxTimer is longer than the grace period of reconciles, after which the timers of an operator
// end.
const maxTimer = time.Minute

// setNamespaces sets the namespace "default" in namespaced objects that the inputs create or delete
// without a namespace.
func setNamespaces(env *testenv.Env, inputs []Input) {
	kinds := env.Plane().Registry().Current()
	for _, input := range inputs {
		object := input.apply
		if object == nil {
			object = input.gone
		}
		if object == nil || object.GetNamespace() != "" {
			continue
		}
		if kind, err := client.KindOf(object, env.Client().Scheme()); err == nil {
			if resource, ok := kinds.ByKind(kind.GroupKind()); ok && resource.Namespaced {
				object.SetNamespace(metav1.NamespaceDefault)
			}
		}
	}
}

// run runs one plan.
func (e *explorer) run(plan Plan) *result { return e.runWith(plan, nil, nil) }

func (e *explorer) runWith(plan Plan, p *probe, b *branch) (found *result) {
	if e.wire != nil {
		return e.runWire(plan, p)
	}
	if plan.has(TimeZone) && e.virtual != nil {
		if err := e.virtual.startZone(); err != nil {
			return &result{failed: err}
		}
	}
	var r result
	defer func() {
		if left := recover(); left != nil {
			text, _ := left.(error)
			if text == nil || !strings.Contains(text.Error(), "blocked goroutines remain") {
				panic(left)
			}
			found = &result{failed: errLeft}
		}
	}()
	synctest.Test(e.t, func(inner *testing.T) {
		startClock()
		t := noting{inner, &e.failure}
		seed()
		t.Cleanup(expireTimers)
		trial := newTrial(&setup{t: t, ctx: e.ctx, virtual: e.virtual, scenario: &e.scenario, plan: plan, probe: p,
			earlierCrashes: e.crashes, keepAll: e.keepAll,
			noWatchLists: e.refusesWatchLists(plan), varying: e.varying, allRights: e.allRights,
			learning: e.learning, periodic: e.periodic, random: e.random, numbers: e.numbers,
			former: e.former})
		trial.injector.branch = b
		trial.setup.env = e.base.Fork(t, testenv.Requests(trial.orderRequests))
		trial.run()
		r = *trial.result
	})
	r.orderOnly = plan.orderOnly()
	return &r
}

// orderOnly reports whether random orders are the only faults of a plan.
func (p Plan) orderOnly() bool {
	return !slices.ContainsFunc(p, func(f Fault) bool { return !f.Kind.isOrder() })
}

func tail(lines []string, n int) string {
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return "  " + strings.Join(lines, "\n  ")
}

// describe is the text of an alarm in a test's output.
func (a Alarm) describe(test string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", a.finding())
	fmt.Fprintf(&b, "faults: %s\n", a.Plan)
	if a.Server != "" {
		fmt.Fprintf(&b, "server: %s\n", a.Server)
	}
	if a.SameAs != nil {
		fmt.Fprintf(&b, "probably the same cause as: %s\n", a.SameAs)
	}
	if a.Runs > 1 {
		fmt.Fprintf(&b, "seen in %d of %d runs of this plan\n", a.Seen, a.Runs)
	}
	fmt.Fprintf(&b, "what happened:\n%s\n", tail(around(a.Steps), 24))
	if len(a.Curve) > 0 {
		fmt.Fprintf(&b, "when it became inevitable: the share of failures if the run continues in other orders, without more faults\n%s", curveText(a.Curve))
	}
	if test != "" {
		fmt.Fprintf(&b, "replay: %s='%s' go test -v -run '^%s$'", PlanVariable,
			strings.ReplaceAll(a.Plan.String(), "'", `'\''`), test)
	}
	return b.String()
}

// finding is the content of an alarm without its plan.
func (a Alarm) finding() string {
	return fmt.Sprintf("%s (%s)\n%s", a.What, a.Oracle, indent(a.Detail))
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }

// around omits all but a few of the steps before the first fault.
func around(steps []string) []string {
	for i, step := range steps {
		if strings.HasPrefix(step, "FAULT") {
			return steps[max(0, i-6):min(len(steps), i+18)]
		}
	}
	return steps
}
