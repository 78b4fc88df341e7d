package explore

import (
	"fmt"
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
	curvePoints = 12 // maximum per curve
	curveRuns   = 4  // per point
	// curveTime is the real time after which no more points are added. It only ends curves of runs
	// that take seconds, such as those in which an operator repeats a request for a day.
	curveTime = time.Minute
)

// curve returns points for steps around the first fault of an alarm and up to its end. At the step
// where the share of failures becomes 1, the failure has become inevitable.
func (e *explorer) curve(a Alarm, reference *outcomes) []explored.Point {
	var points []explored.Point
	begin := time.Now()
	for _, step := range curveSteps(a.Steps) {
		if time.Since(begin) >= curveTime {
			break
		}
		p := explored.Point{Step: step, Text: a.Steps[step], Runs: curveRuns}
		for seed := range uint64(curveRuns) {
			r := e.runWith(a.Plan, nil, &branch{after: step + 1, seed: seed})
			if r.failed == nil && len(e.alarms(a.Plan, r, reference)) > 0 {
				p.Failures++
			}
		}
		points = append(points, p)
	}
	return points
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
