package explore

import (
	"cmp"
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
)

// wireExplorer holds the fields of an explorer that only a Binary needs.
type wireExplorer struct {
	wire
	scope *scope // of the base
}

const (
	defaultWireFor = time.Minute
	// wireRepetitions is the number of further runs of an alarm's plan, and wireConfirmed the
	// number of these that must raise an alarm.
	wireRepetitions = 3
	wireConfirmed   = 2
)

// ExploreBinary is [Explore] for a scenario with a Binary, outside of tests. When ctx ends, it
// returns the report so far, and the error of ctx.
func ExploreBinary(ctx context.Context, s Scenario, o Options) (Report, error) {
	e, err := newWireExplorer(ctx, s)
	if err != nil {
		return Report{}, err
	}
	defer e.close()
	return e.explore(o, time.Now())
}

// ReplayBinary runs a plan several times, and returns its alarm if most runs raise one, or nil.
func ReplayBinary(ctx context.Context, s Scenario, text string) (*Alarm, error) {
	plan, err := ParsePlan(text)
	if err != nil {
		return nil, err
	}
	e, err := newWireExplorer(ctx, s)
	if err != nil {
		return nil, err
	}
	defer e.close()
	_, alarms, _, err := e.replay(plan)
	if err != nil || len(alarms) == 0 {
		return nil, err
	}
	return &alarms[0], nil
}

// newWireExplorer starts the base in real time, and the operator for the first time.
func newWireExplorer(ctx context.Context, s Scenario) (e *explorer, err error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kelson-explore-")
	if err != nil {
		return nil, err
	}
	base := &scope{ctx: ctx, dir: dir}
	base.Cleanup(func() { os.RemoveAll(dir) })
	defer func() {
		if err != nil {
			base.end()
		}
	}()
	defer base.recover(&err)
	e = &explorer{scenario: s, variants: map[string]*result{},
		wire: &wireExplorer{wire: wire{binary: s.Binary, dir: dir, isolated: canIsolate(), namespace: s.namespace},
			scope: base}}
	e.base = testenv.New(base, s.Env...)
	if s.Prepare != nil {
		require.NoErrorf(base, s.Prepare(ctx, e.base.Client()), "prepare")
	}
	if err := e.prepareWebhooks(ctx); err != nil {
		return nil, err
	}
	e.awaitQuietBase(ctx)
	setNamespaces(e.base, s.Inputs)
	if err := e.checkServed(); err != nil {
		return nil, err
	}
	if first := e.run(nil); first.failed != nil {
		return nil, first.failed
	}
	return e, nil
}

// awaitQuietBase waits until the base no longer changes.
func (e *explorer) awaitQuietBase(ctx context.Context) {
	for end := time.Now().Add(wireHorizon); time.Now().Before(end); {
		s := e.base.Plane().Store()
		quiet, cancel := context.WithTimeout(ctx, wireQuiet)
		err := s.Await(quiet, s.Snapshot().Revision(), "")
		cancel()
		if err != nil {
			return
		}
	}
}

// runWire runs one plan with the Binary.
func (e *explorer) runWire(plan Plan, p *probe) *result {
	var r result
	err := inScope(e.wire.scope.ctx, e.wire.dir, func(s *scope) {
		t := newTrial(&setup{t: s, wire: &e.wire.wire, scenario: &e.scenario, env: e.base.Fork(s), plan: plan, probe: p,
			noWatchLists: e.refusesWatchLists(plan), varying: e.varying, allRights: e.allRights})
		stop := t.operator.passWebhooks()
		s.Cleanup(func() {
			defer stop()
			for _, p := range t.operator.all {
				p.kill()
				<-p.ended
			}
		})
		t.run()
		r = *t.result
	})
	if err != nil {
		r.failed = err
	}
	r.orderOnly = plan.orderOnly()
	return &r
}

// defaultFor returns the default duration of an exploration.
func (e *explorer) defaultFor() time.Duration {
	if e.wire != nil {
		return defaultWireFor
	}
	return defaultFor
}

// repetitions returns how often the function repeated runs a plan.
func (e *explorer) repetitions() int {
	if e.wire != nil {
		return wireRepetitions
	}
	return 1
}

// repeated runs a plan and returns its alarms. The plan of a Binary runs several times. If enough
// runs raise alarms, repeated returns those of one run, otherwise none. If no run has reached the
// points of the plan, the returned run lists the missing points.
func (e *explorer) repeated(plan Plan, reference *outcomes) (r *result, alarms []Alarm, seen int) {
	for range e.repetitions() {
		again := e.run(plan)
		if again.failed != nil {
			return again, nil, 0
		}
		raised := e.alarms(plan, again, reference)
		if len(raised) > 0 {
			seen++
		}
		if r == nil || len(raised) > 0 && len(alarms) == 0 || len(alarms) == 0 && len(again.unused) < len(r.unused) {
			r, alarms = again, raised
		}
	}
	if e.wire != nil && seen < wireConfirmed {
		alarms = nil
	}
	return r, alarms, seen
}

// inParallel calls work as often as runs can happen at the same time, and waits until all calls
// have returned.
func (e *explorer) inParallel(work func()) {
	if e.wire == nil {
		work()
		return
	}
	var all sync.WaitGroup
	for range e.wire.binary.runs(e.wire.isolated) {
		all.Go(work)
	}
	all.Wait()
}

// promisingFirst orders plans with a single fault by how often their kinds find bugs, because the
// time may be too short for all of them.
func promisingFirst(plans []Plan) {
	order := []Kind{Down, KillAfter, Lose, FreezeAll, KillStale, KillBefore, Conflict, HoldInput, Order, DeleteChild,
		Recreate, Cut, KillOld, Internal}
	rank := func(p Plan) int {
		if i := slices.Index(order, p[0].Kind); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(plans, func(a, b Plan) int { return cmp.Compare(rank(a), rank(b)) })
}
