package explore

import (
	"errors"
	"fmt"
	"testing"
)

// RepeatVariable is the environment variable that makes Run repeat a plan instead of exploring: how
// often, as a number. The plan is that of PlanVariable or, without it, a random order with one
// fault.
const RepeatVariable = "KELSON_EXPLORE_REPEAT"

// Repetition is the result of Repeat.
type Repetition struct {
	Plan Plan
	Runs int
	// Unequal is the number of runs that differ from the first, and Difference is the first step or
	// version in which one differs.
	Unequal    int
	Difference string
}

func (r Repetition) String() string {
	text := fmt.Sprintf("%d of %d runs have the same history, byte for byte: %s", r.Runs-r.Unequal, r.Runs, r.Plan)
	if r.Unequal > 0 {
		text += "\nthe first difference: " + r.Difference
	}
	return text
}

// Repeat runs one plan several times, and compares the histories. Two histories are equal if every
// request, response, event and fault comes in the same order, and every version of every object has
// the same revision and the same bytes, times included. UIDs are compared by the order in which
// they appear; Events and Leases do not count.
//
// Replay accepts the text. If it is empty, Repeat chooses a plan: a random order with one
// fault.
func Repeat(t *testing.T, s Scenario, text string, runs int) (Repetition, error) {
	t.Helper()
	if s.Binary != nil {
		return Repetition{}, errors.New("runs of a Binary take real time, so their histories differ; Repeat needs an Operator")
	}
	plan, err := ParsePlan(text)
	if err != nil {
		return Repetition{}, err
	}
	e, err := newExplorer(t, s)
	if err != nil {
		return Repetition{}, err
	}
	if text == "" {
		base := e.run(nil)
		if base.failed != nil {
			return Repetition{}, base.failed
		}
		if plans, _ := singles(base, len(s.Inputs)); len(plans) > 0 {
			plan = append(plan, plans[len(plans)/2]...)
		}
		plan = append(plan, Fault{Kind: Order, Seed: 1})
	}
	e.keepAll = true
	repetition := Repetition{Plan: plan, Runs: runs}
	var first *result
	for range runs {
		r := e.run(plan)
		switch {
		case r.failed != nil:
			return repetition, r.failed
		case first == nil:
			first = r
		case r.digest != first.digest:
			if repetition.Unequal++; repetition.Difference == "" {
				repetition.Difference = firstDifference(first, r)
			}
		}
	}
	return repetition, nil
}
