package explore

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
	"kelson.dev/lab/explored"
)

// Unhealthy exports unhealthy to tests.
var Unhealthy = unhealthy

// ReconcileError exports reconcileError to tests.
var ReconcileError = reconcileError

// MarkersFor exports markersFor to tests.
var MarkersFor = markersFor

// LoggedPanic exports loggedPanic to tests.
var LoggedPanic = loggedPanic

// FailureOf returns the file of an alarm.
func FailureOf(a Alarm) *explored.Failure { return a.failure() }

// WarningsOf returns the warnings about a project.
func WarningsOf(s Scenario) []string { return s.warnings }

// ReplayPlan exports replay to tests. It returns the alarms and the steps.
func ReplayPlan(t *testing.T, s Scenario, plan string) ([]Alarm, []string) {
	t.Helper()
	r, alarms, _, err := replay(t, s, plan)
	require.NoError(t, err)
	return alarms, r.steps
}

// StateAfter returns the state of a control plane after a function has changed it.
func StateAfter(t *testing.T, s *store.Store, change func()) State {
	t.Helper()
	return historyOf(t, s, change).state()
}

func historyOf(t *testing.T, s *store.Store, change func()) *history {
	t.Helper()
	h := newHistory()
	require.NoError(t, h.begin(s))
	change()
	require.NoError(t, h.read())
	return h
}

// IDs returns the names of the objects of a state.
func IDs(s State) []string { return slices.Sorted(maps.Keys(s.objects)) }

// EqualPlans runs every plan with one fault, and then n plans with two faults that an exploration
// would skip because they equal others. It returns those whose history differs from that of the
// other plan.
func EqualPlans(t *testing.T, s Scenario, n int) (unequal []string) {
	t.Helper()
	e, err := newExplorer(t, s)
	require.NoError(t, err)
	plans, _ := singles(e.run(nil), len(s.Inputs))
	// After these faults, informers in this process begin a watch again after a random time.
	plans = slices.DeleteFunc(plans, func(p Plan) bool { return p[0].Kind == ServerRestart || p[0].Kind == Revoke })
	earlier := reached{}
	for _, plan := range plans {
		earlier.add(plan, e.run(plan))
	}
	random := rand.New(rand.NewPCG(1, 1))
	for left := 0; left < n; {
		plan := append(append(Plan(nil), plans[random.IntN(len(plans))]...), plans[random.IntN(len(plans))]...)
		text := earlier.equal(plan)
		if text == "" {
			continue
		}
		left++
		other, err := ParsePlan(text)
		require.NoError(t, err)
		if e.run(plan).digest != e.run(other).digest {
			unequal = append(unequal, fmt.Sprintf("%s and %s", plan, other))
		}
	}
	return unequal
}

// ExploreUntil does the same as Explore, and ends early when ctx is done.
func ExploreUntil(ctx context.Context, t *testing.T, s Scenario, o Options) (Report, error) {
	e := &explorer{t: t, ctx: ctx}
	defer e.close()
	if _, err := e.start(s); err != nil {
		return Report{}, err
	}
	return e.explore(o, time.Now())
}

// LastRemoval returns the revision of the last removal of an object by a function, see KillOld.
func LastRemoval(t *testing.T, s *store.Store, change func()) uint64 {
	t.Helper()
	return historyOf(t, s, change).removal
}

// LastPanic returns the panic that has ended a program with an output.
func LastPanic(text string) string { return (&output{kept: []byte(text)}).panicked() }
