package explore

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kelson.dev/lab/agent"
)

// Options configures an exploration.
type Options struct {
	// For bounds the time; 0 means ten seconds, and a minute if the operator is a Binary, whose
	// runs without faults do not count.
	For time.Duration
	// OneFault ends the exploration when all plans with a single fault were tried.
	OneFault bool
	// Kinds, if not empty, restricts the plans with a single fault to these kinds of faults. Random
	// orders are kinds, too.
	Kinds []Kind
	// UntilAlarm ends the exploration at the first alarm.
	UntilAlarm bool
	// Plans bounds how many plans are run, without those that shorten a plan or follow an alarm; 0
	// means any number.
	Plans int
	// Seed selects the random plans.
	Seed uint64
	// Check makes the runs without faults and the plans with a single fault, but runs none of
	// these.
	Check bool
	// Steps makes a replay without an alarm report its steps.
	Steps bool
	// Progress, if not nil, is called after each plan.
	Progress func(Report) `json:"-"`
	// Found, if not nil, is called with each alarm when it is found and its plan shortened.
	Found func(Alarm) `json:"-"`

	share *share // of a divided exploration; nil if this one runs all plans
}

// Report is the result of an exploration.
type Report struct {
	// Plans is the number of plans that ran. OneFault is the number of existing plans with a single
	// fault. Skipped is the number of these that did not run, because another run had the same
	// state at the same moment.
	Plans, OneFault, Skipped int
	// Left is the number of plans with a single fault for which the time was too short.
	Left int
	// Equal is the number of plans with several faults that were not run, because their runs would
	// be equal to earlier ones.
	Equal int
	// Pruned is the number of runs with several faults that ended early at a crash, because an
	// earlier run without an alarm had a crash in the same state.
	Pruned int
	// States is the number of different states of the control plane.
	States int
	// Points is the number of writes and events in the run without faults.
	Points int
	// Unequal is the number of runs, out of Further other runs without faults, that took different
	// steps than the first. Difference is the first different step. If Unequal is not 0, the
	// operator is not deterministic: plans may not be reproducible.
	Unequal, Further int
	Difference       string
	// Varying lists the fields and objects that differ between the ends of runs without faults.
	// They are not compared.
	Varying []string
	// NotTried lists the kinds of faults of which some plans cannot occur for the operator. These
	// plans do not count.
	NotTried []NotTried
	// Failing lists the reconciles that return errors without any fault until an input changes
	// something, or that Scenario.Failing expects. Others that fail are an alarm.
	Failing []string
	// Periodic lists the objects that the operator writes at constant intervals without any fault,
	// with the interval. These writes do not count as changes, and their numbers are not compared.
	Periodic []string
	// Remaining lists the objects without an owner that the operator has created and that remain,
	// without any fault, when the objects of the inputs were deleted. They may be leaks.
	Remaining []string
	// Checked is true if only the runs without faults were made; see Options.Check.
	Checked bool
	// Warnings are about the scenario of a project.
	Warnings []string
	// External lists the attempts of a Program, in all runs, to connect to addresses outside of the
	// cluster and to start other programs, by address.
	External []agent.External
	// Unanswered lists the requests to Services for which there was no answer. They got 404.
	Unanswered []string
	// Unconfirmed are alarms of a Binary that do not count, because fewer than two of three further
	// runs of the plan raised one.
	Unconfirmed []Alarm
	Took        time.Duration
	Alarms      []Alarm
}

// Summary describes the explored runs.
func (r Report) Summary() string {
	if r.Checked {
		if r.Points == 0 {
			return "checked: the control plane accepts the manifests" + r.notes()
		}
		return fmt.Sprintf("checked: %d points, %d plans of one fault", r.Points, r.OneFault-r.Skipped) + r.notes()
	}
	left := ""
	if r.Left > 0 {
		left = fmt.Sprintf(", %d not run because the time was over", r.Left)
	}
	text := fmt.Sprintf("explored %d plans in %v (%.0f a minute): %d points, %d plans of one fault, %d of them equal to others%s; %d states, %d alarms",
		r.Plans, r.Took.Round(time.Millisecond), float64(r.Plans)/r.Took.Minutes(), r.Points, r.OneFault, r.Skipped,
		left, r.States, len(r.Alarms))
	if r.Equal > 0 {
		text += fmt.Sprintf(", %d plans of several faults not run because they equal others", r.Equal)
	}
	if r.Pruned > 0 {
		text += fmt.Sprintf(", %d runs ended early at a state that was explored", r.Pruned)
	}
	if n := len(r.Unconfirmed); n > 0 {
		text += fmt.Sprintf(", %d others not confirmed by further runs", n)
	}
	if causes := r.Causes(); causes > 0 && causes < len(r.Alarms) {
		text += fmt.Sprintf(", probably of %d causes", causes)
	}
	for _, a := range r.Unconfirmed {
		text += fmt.Sprintf("\nnot confirmed: %s (%s) in %d of %d further runs of: %s", a.What, a.Oracle, a.Seen,
			a.Runs, a.Plan)
	}
	return text + r.notes()
}

// Notes returns texts about the runs without faults that have no other field.
func (r Report) Notes() (notes []string) {
	if r.Unequal > 0 {
		notes = append(notes, fmt.Sprintf("the operator is not deterministic, so a replay may differ: "+
			"%d of %d further runs without faults took other steps; %s", r.Unequal, r.Further, r.Difference))
	}
	for _, line := range r.Periodic {
		notes = append(notes, "without any fault, the operator writes again and again, which does not count as a "+
			"change: "+line)
	}
	for _, line := range r.Unanswered {
		notes = append(notes, "no service has an answer in "+ConfigFile+", so it is 404: "+line)
	}
	for _, line := range r.Failing {
		notes = append(notes, "without any fault, a reconcile fails again and again: "+line)
	}
	return notes
}

// notes returns lines about the runs without faults.
func (r Report) notes() (text string) {
	for _, note := range r.Notes() {
		text += "\n" + note
	}
	if len(r.Varying) > 0 {
		text += "\nwithout any fault, the runs end differently, so these fields and objects are not compared:\n" +
			indent(strings.Join(r.Varying, "\n"))
	}
	text += notTriedText(r.NotTried) + r.externalText()
	for _, line := range r.Warnings {
		text += "\nwarning: " + line
	}
	return text
}

// externalText returns the lines about External.
func (r Report) externalText() (text string) {
	var refused, allowed []string
	for _, e := range r.External {
		line := e.Address
		if e.Attempts > 1 {
			line += fmt.Sprintf(" (%d times)", e.Attempts)
		}
		if e.Allowed {
			allowed = append(allowed, line)
		} else {
			refused = append(refused, line)
		}
	}
	if len(refused) > 0 {
		text += "\nthe operator tried to connect to other systems or to start programs, and failed: " +
			strings.Join(refused, ", ") + "; --allow permits them"
	}
	if len(allowed) > 0 {
		text += "\nthe operator used other systems or programs, as --allow permits: " + strings.Join(allowed, ", ")
	}
	return text
}

// Causes returns the number of probably different causes of the alarms.
func (r Report) Causes() (n int) {
	for _, a := range r.Alarms {
		if a.SameAs == nil {
			n++
		}
	}
	return n
}

// Explore explores a scenario. It must not be called in a testing/synctest bubble. The error says
// why the scenario cannot be explored.
func Explore(t *testing.T, s Scenario, o Options) (Report, error) {
	t.Helper()
	begin := time.Now()
	e, err := newExplorer(t, s)
	if err != nil {
		return Report{}, err
	}
	defer e.close()
	return e.explore(o, begin)
}

// explore explores the scenario, and counts its time from begin.
func (e *explorer) explore(o Options, begin time.Time) (Report, error) {
	reference, err := e.reference()
	if a := (*alarmed)(nil); errors.As(err, &a) && a.reported() {
		return e.onlyAlarms(a, o, begin), e.interrupted()
	}
	if err != nil {
		return Report{}, err
	}
	if e.wire != nil {
		begin = time.Now() // the runs without faults take longer than those of other operators
	}
	c := &campaign{explorer: e, base: reference, reference: reference.outcomes, begin: begin, end: begin.Add(o.For),
		options: o,
		states:  map[[32]byte]bool{}, points: map[Point]bool{}, signatures: map[string]bool{}, reached: reached{},
		random: rand.New(rand.NewPCG(o.Seed, 1))}
	if o.For == 0 {
		c.end = begin.Add(e.defaultFor())
	}
	first := reference.first
	c.report.Points = len(first.points)
	for _, v := range first.points {
		c.points[v.Point] = true
	}
	alarmed := reference.lasting(c.scenario.Failing)
	for _, id := range slices.Sorted(maps.Keys(reference.outcomes.failing)) {
		if alarmed[id] != "" {
			continue
		}
		c.report.Failing = append(c.report.Failing, id+": "+reference.outcomes.failing[id])
	}
	c.report.Unequal, c.report.Further, c.report.Difference = reference.unequal, reference.runs, reference.difference
	c.report.Varying = reference.outcomes.varying()
	c.report.Periodic = c.periodic.lines()
	c.report.Remaining = first.remaining()
	c.report.Warnings = c.scenario.warnings
	for _, alarm := range reference.alarms {
		c.add(alarm)
	}
	c.report.Checked = o.Check
	c.explore()
	c.report.Took = time.Since(begin)
	c.report.External, c.report.Unanswered = e.external(), e.unanswered()
	return c.report, e.interrupted()
}

// external returns the attempts of a Program to use other systems, by address.
func (e *explorer) external() []agent.External {
	if e.virtual == nil {
		return nil
	}
	all := slices.Clone(e.virtual.external)
	sortExternal(all)
	return all
}

func sortExternal(all []agent.External) {
	slices.SortFunc(all, func(a, b agent.External) int {
		return cmp.Or(strings.Compare(a.Address, b.Address), compareBool(a.Allowed, b.Allowed))
	})
}

// unanswered returns the requests to services without an answer.
func (e *explorer) unanswered() []string {
	if e.virtual == nil {
		return nil
	}
	return slices.Sorted(slices.Values(e.virtual.unanswered))
}

// campaign is one exploration.
type campaign struct {
	*explorer
	base       *baseline
	reference  *outcomes // of the baseline
	begin, end time.Time
	curves     time.Duration // the real time that curves have taken
	options    Options
	states     map[[32]byte]bool
	points     map[Point]bool  // points that a run had
	signatures map[string]bool // of the alarms that were reported
	reached    reached
	random     *rand.Rand
	mu         sync.Mutex // guards all fields if several runs happen at the same time
	started    int        // plans
	later      []Plan     // tried alternately with random plans
	others     []Alarm    // those that other shares of the exploration have found
	report     Report
}

func (c *campaign) explore() {
	plans, skipped := singles(c.base.first, len(c.scenario.Inputs))
	if len(c.options.Kinds) > 0 {
		plans, skipped = c.wanted(plans), 0 // those that were skipped are of all kinds
	}
	plans = append(c.downs(), c.possible(plans)...)
	for range orders {
		plans = append(plans, Plan{{Kind: Order, Seed: c.seed()}})
	}
	for range orders {
		plans = append(plans, Plan{{Kind: Priorities, Seed: c.seed()}})
	}
	plans = append(append(plans, c.actionsOf()...), append(c.formers(), c.zones()...)...)
	plans = c.wanted(plans)
	c.report.OneFault, c.report.Skipped = len(plans)+skipped, skipped
	// These find bugs that others may find, too, and do not say as much about them.
	slices.SortStableFunc(plans, func(a, b Plan) int { return compareBool(a.has(Occupied), b.has(Occupied)) })
	if len(c.options.Kinds) == 0 {
		c.noteMissing(plans)
	}
	if c.options.Check {
		return
	}
	c.crashes = map[moment]bool{}
	if c.wire != nil {
		promisingFirst(plans)
	}
	var fruitful []Plan // plans that led to new states
	next, ofOneFault := 0, len(plans)
	defer func() { c.report.Left = max(0, ofOneFault-next) }()
	if c.options.share != nil {
		c.options.share.begin(c.report, plans)
		c.random = rand.New(rand.NewPCG(c.options.Seed, 1+uint64(c.options.share.number)))
	}
	choose := func() (plan Plan, ok bool) {
		if c.options.share != nil {
			next = c.askForPlan(next, ofOneFault)
		}
		switch {
		case c.over():
			return nil, false
		case next < len(plans):
			plan = plans[next]
		case c.options.OneFault || len(plans) == 0:
			return nil, false
		case len(c.later) > 0 && c.started%2 == 0:
			plan, c.later = c.later[0], c.later[1:]
			c.started++
			return plan, true
		default:
			plan = c.mutate(plans, fruitful)
		}
		next++
		c.started++
		return plan, true
	}
	c.inParallel(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for {
			plan, ok := choose()
			if !ok {
				return
			}
			c.mu.Unlock()
			r := c.run(plan)
			c.mu.Lock()
			if c.take(plan, r) && len(plan) < maxFaults && !plan.alone() {
				fruitful = append(fruitful, plan)
			}
			if !c.options.OneFault && r.failed == nil {
				plans = append(plans, c.further(plan, r)...)
			}
		}
	})
}

// askForPlan returns the index of the plan that is next in a divided exploration: of one with a
// single fault while some were not begun, and otherwise next.
func (c *campaign) askForPlan(next, ofOneFault int) int {
	plan, found := c.options.share.next(c.ctx, c.report)
	for _, a := range found {
		c.signatures[a.signature()] = true
	}
	c.others = append(c.others, found...)
	if plan >= 0 {
		return plan
	}
	return max(next, ofOneFault)
}

// wanted removes the plans with a kind of fault that Options.Kinds excludes.
func (c *campaign) wanted(plans []Plan) []Plan {
	return slices.DeleteFunc(plans, func(p Plan) bool {
		return len(c.options.Kinds) > 0 && !slices.Contains(c.options.Kinds, p[0].Kind)
	})
}

// over reports whether the time or the plans are used up.
func (c *campaign) over() bool {
	return c.options.share != nil && c.options.share.over ||
		time.Now().After(c.end) || c.options.UntilAlarm && len(c.report.Alarms) > 0 ||
		c.options.Plans > 0 && c.started >= c.options.Plans ||
		c.interrupted() != nil
}

// interrupted returns the error of the context of an exploration.
func (e *explorer) interrupted() error {
	if e.wire != nil {
		return e.wire.scope.ctx.Err()
	}
	return e.ctx.Err()
}

// further returns plans with one more fault, at the writes and events of a run that no earlier run
// had: those that happen only after a fault. Kinds of faults that find fewer bugs come later.
func (c *campaign) further(plan Plan, r *result) []Plan {
	var plans []Plan
	for _, v := range r.points {
		if c.points[v.Point] {
			continue
		}
		c.points[v.Point] = true
		if len(plan) >= maxFaults || plan.orderOnly() || plan.alone() {
			continue
		}
		for _, kind := range v.kinds() {
			more := append(slices.Clone(plan), Fault{Kind: kind, At: v.Point})
			switch {
			case kind == KillAfter || kind == Lose:
				plans = append(plans, more)
			case v.allows(kind, len(c.scenario.Inputs)):
				c.later = append(c.later, more)
			}
		}
	}
	return plans
}

// maxFaults bounds the faults of a plan.
const maxFaults = 4

// orders is the number of random orders among the plans with a single fault.
const orders = 10

// mutate makes a plan with several faults: a plan that led to new states, and one more fault, which
// may be a random order.
func (c *campaign) mutate(plans, fruitful []Plan) (plan Plan) {
	if len(fruitful) == 0 {
		fruitful = plans
	}
	const attempts = 20
	for range attempts {
		if plan = c.combine(plans, fruitful); c.wire != nil || c.reached.equal(plan) == "" {
			return plan
		}
		c.report.Equal++
	}
	return plan
}

func (c *campaign) combine(plans, fruitful []Plan) Plan {
	plan := append(Plan(nil), fruitful[c.random.IntN(len(fruitful))]...)
	if plan.alone() {
		plan = nil
	}
	if c.random.IntN(4) == 0 {
		return append(plan, c.order()...)
	}
	for range 8 {
		// With several actions, a run would differ too much from the runs with which it is
		// compared.
		more := plans[c.random.IntN(len(plans))]
		if len(plan.actions())+len(more.actions()) <= 1 && !more.alone() {
			return append(plan, more...)
		}
	}
	return append(plan, c.order()...)
}

// order makes a plan with a random order.
func (c *campaign) order() Plan {
	return Plan{{Kind: []Kind{Order, Priorities}[c.random.IntN(2)], Seed: c.seed()}}
}

func (c *campaign) seed() uint64 { return c.random.Uint64N(1 << 20) }

// take judges the run of a plan, and reports whether it led to a state that no earlier plan had.
func (c *campaign) take(plan Plan, r *result) bool {
	news := false
	if r.failed == nil && len(plan) == 1 && plan.stale() && !r.sawOld && len(r.alarms) == 0 {
		c.notTried(plan[0].Kind, "after the restart, no read of the operator returned an older state, so the run was one of "+string(KillAfter), 1)
		c.reached.add(plan, r)
		return false
	}
	c.report.Plans++
	for state := range r.states {
		if !c.states[state] {
			c.states[state], news = true, true
			if c.options.share != nil {
				c.options.share.states = append(c.options.share.states, state[:])
			}
		}
	}
	c.report.States = len(c.states)
	if r.failed != nil {
		c.report.Plans--
		c.notTried(plan[0].Kind, "the run is not possible: "+r.failed.Error(), 1)
		return false
	}
	if len(plan) == 1 && len(r.unused) > 0 && len(r.alarms) == 0 {
		c.report.Plans--
		c.notTried(plan[0].Kind, "its moment does not come in another run, because names or the number of requests differ", 1)
		return false
	}
	alarms := c.alarms(plan, r, c.reference)
	c.reached.add(plan, r)
	switch {
	case r.pruned:
		c.report.Pruned++
	case len(alarms) > 0:
		c.found(alarms[0], plan, r)
	default:
		for _, at := range r.crashes {
			c.crashes[at] = true
		}
	}
	if c.options.Progress != nil {
		c.report.Took = time.Since(c.begin)
		c.options.Progress(c.report)
	}
	return news
}

// found shrinks the plan of an alarm, and reports the alarm unless an equal one was reported
// before.
func (c *campaign) found(alarm Alarm, plan Plan, r *result) {
	if c.signatures[alarm.signature()] {
		return
	}
	alarm.complete(plan, r, c.base.first, 1, 1)
	if c.wire != nil {
		again, alarms, seen := c.repeated(plan, c.reference)
		if len(alarms) == 0 {
			alarm.Seen, alarm.Runs = seen, c.repetitions()
			c.report.Unconfirmed = append(c.report.Unconfirmed, alarm)
			return
		}
		alarm = alarms[0]
		alarm.complete(plan, again, c.base.first, seen, c.repetitions())
	}
	for i := 0; i < len(plan) && len(plan) > 1; {
		fewer := append(append(Plan(nil), plan[:i]...), plan[i+1:]...)
		again, alarms, seen := c.repeated(fewer, c.reference)
		if again.failed != nil || len(alarms) == 0 {
			i++ // this fault is needed
			continue
		}
		plan, alarm = fewer, alarms[0]
		alarm.complete(fewer, again, c.base.first, seen, c.repetitions())
	}
	if c.signatures[alarm.signature()] {
		return
	}
	if limit := curveTime(time.Since(c.begin), c.curves); c.wire == nil && limit > 0 && c.cause(&alarm) == nil {
		began := time.Now()
		alarm.Curve = c.curve(alarm, c.reference, limit)
		c.curves += time.Since(began)
	}
	c.add(alarm)
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// add reports an alarm.
func (c *campaign) add(alarm Alarm) {
	c.signatures[alarm.signature()] = true
	alarm.SameAs = c.cause(&alarm)
	c.report.Alarms = append(c.report.Alarms, alarm)
	if c.options.Found != nil {
		c.options.Found(alarm)
	}
}

// cause returns the plan of an earlier alarm that probably has the same cause; nil for none.
func (c *campaign) cause(alarm *Alarm) Plan {
	for _, earlier := range slices.Concat(c.others, c.report.Alarms) {
		if earlier.SameAs == nil && earlier.sameCause(alarm) {
			return append(Plan{}, earlier.Plan...) // not nil
		}
	}
	return nil
}

var numbers = regexp.MustCompile(`\d+`)

// signature is equal for alarms that are probably the same bug.
func (a Alarm) signature() string {
	return a.Oracle + " " + a.What + " " + numbers.ReplaceAllString(a.Detail, "#")
}

// singles returns the plans with a single fault at the points of the run without faults. It skips
// kills at moments at which the control plane has the same state as at an earlier one: because a
// kill loses the memory of the process, the rest of the run would be the same.
func singles(reference *result, inputs int) (plans []Plan, skipped int) {
	type moment struct {
		state  [32]byte
		inputs int
	}
	killed := map[moment]bool{}
	for _, v := range reference.points {
		for _, kind := range v.kinds() {
			if !v.allows(kind, inputs) {
				continue
			}
			var at moment
			switch kind {
			case KillBefore:
				at = moment{v.before, v.inputs}
			case KillAfter:
				at = moment{v.after, v.inputs}
			}
			if at != (moment{}) && !reference.several {
				if killed[at] {
					skipped++
					continue
				}
				killed[at] = true
			}
			plans = append(plans, Plan{{Kind: kind, At: v.Point}})
		}
		for _, change := range v.foreign {
			plans = append(plans, Plan{{Kind: ForeignWrite, At: v.Point, Field: change.field, Value: change.value}})
		}
	}
	return plans, skipped
}

// allows reports whether a kind of fault makes sense at a point.
func (v visit) allows(kind Kind, inputs int) bool {
	switch kind {
	case Refuse, Unavailable, SlowResponse:
		return !queries.Has(v.Verb) || v.N <= maxQueries
	case KillOld:
		return v.removed // otherwise that state does not exist
	case HoldInput:
		return v.inputs < inputs // otherwise no input follows
	case ForeignWrite:
		return false // singles adds one for each change
	case Mutate:
		return v.first
	case Quota:
		return v.creates
	case Occupied:
		return v.creates && !v.generated // no client can know a name that the server generates
	case Conflict:
		return v.Verb == "update" // other verbs have no precondition that another write could break
	}
	return true
}
