package explore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"kelson.dev/lab/explored"
)

// branch is the step after which a run no longer follows its plan.
type branch struct {
	after int    // number of steps that follow the plan
	seed  uint64 // of the order of the later steps
}

const (
	curvePoints = 12 // maximum per curve, of which the search needs about half
	curveRuns   = 4  // per point
)

// The real time after which no more points are added to the curves of an exploration: a share of
// the time since its begin, but at least leastCurves for each exploration. It only ends curves of
// runs that take seconds, such as those of operators with many objects. Otherwise, the curves of a
// few alarms could take more time than all plans.
const (
	curveShare  = 5 // a fifth
	leastCurves = 20 * time.Second
)

// curveTime returns how much real time is left for curves, of an exploration that has taken some
// time, of which curves have taken a part.
func curveTime(since, curves time.Duration) time.Duration {
	return max(leastCurves, since/curveShare) - curves
}

// curve returns points for steps around the first fault of an alarm and up to its end. At the step
// where the share of failures becomes 1, the failure has become inevitable. The points are those of
// a search for this step. No point is added after some real time.
func (e *explorer) curve(a Alarm, reference *outcomes, limit time.Duration) []explored.Point {
	begin := time.Now()
	steps, points := curveSteps(a.Steps), map[int]explored.Point{}
	// inevitable adds the point of a step, and reports whether all of its runs fail.
	inevitable := func(i int) bool {
		if time.Since(begin) >= limit {
			return true
		}
		step := steps[i]
		p := explored.Point{Step: step, Text: a.Steps[step], Runs: curveRuns}
		for seed := range uint64(curveRuns) {
			r := e.runWith(a.Plan, nil, &branch{after: step + 1, seed: seed})
			if r.failed == nil && len(e.alarms(a.Plan, r, reference)) > 0 {
				p.Failures++
			}
		}
		points[i] = p
		return p.Failures == p.Runs
	}
	search(len(steps), inevitable)
	var sorted []explored.Point
	for _, i := range slices.Sorted(maps.Keys(points)) {
		sorted = append(sorted, points[i])
	}
	return sorted
}

// search calls holds with numbers below n: with the first and the last one, and then with those
// that find the first one for which it holds.
func search(n int, holds func(int) bool) {
	if n == 0 || holds(0) || n == 1 || !holds(n-1) {
		return
	}
	for low, high := 0, n-1; high-low > 1; {
		if middle := (low + high) / 2; holds(middle) {
			high = middle
		} else {
			low = middle
		}
	}
}

// curveSteps chooses the steps of a curve: those around the first fault, and others up to the end
// at equal distances.
func curveSteps(steps []string) []int {
	first := max(0, slices.IndexFunc(steps, func(s string) bool { return strings.HasPrefix(s, "FAULT") }))
	var chosen []int
	for i := max(0, first-2); i < min(len(steps), first+4); i++ {
		chosen = append(chosen, i)
	}
	rest := len(steps) - first - 4
	others := curvePoints - len(chosen)
	for i := range min(rest, others) {
		chosen = append(chosen, first+4+i*rest/min(rest, others))
	}
	return chosen
}

// curveText draws a curve.
func curveText(points []explored.Point) string {
	var b strings.Builder
	for _, p := range points {
		fmt.Fprintf(&b, "  %3d%% %-10s step %d: %s\n", 100*p.Failures/p.Runs, strings.Repeat("#", 10*p.Failures/p.Runs),
			p.Step+1, p.Text)
	}
	return b.String()
}

// leavePlan makes the run leave its plan at the step of the branch: no more faults, and another
// order.
func (in *injector) leavePlan() {
	if in.branch != nil && len(in.result.steps) >= in.branch.after {
		in.order.random = rand.New(rand.NewPCG(in.branch.seed, 2))
		for i := range in.progress.done {
			in.progress.done[i] = true // no more faults
		}
		in.branch = nil
	}
}
