package explore

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/lab/explored"
)

// Alarm is a violation that a run has shown.
type Alarm struct {
	// Oracle is its number in docs/guides/testing.md, such as O1; What is its name.
	Oracle, What string
	// Detail describes the violation, with the objects and fields.
	Detail string
	// Server says against which server the run took place, if that matters; otherwise it is "".
	Server string
	// Plan is the shortest plan known to cause it.
	Plan Plan
	// Steps are the requests, events and faults of the run.
	Steps []string
	// Curve shows when the failure became inevitable; nil for a replay and for a Binary.
	Curve []explored.Point
	// Seen is the number of runs of the plan, out of Runs, that raised the alarm. Runs is 1 unless
	// the operator is a Binary, whose runs differ.
	Seen, Runs int

	// SameAs is the plan of an earlier alarm that probably has the same cause: mostly the same
	// objects and fields have the same wrong values, and the operator has done similar things more
	// or less often. It is nil for the first alarm of a cause.
	SameAs Plan

	subjects         []string // what differs; nil if the alarm is about something else
	effects          []string // what was done more or less often; see effectsOf
	fatal            bool     // the trial cannot continue
	passing, failing *explored.Run
}

func (a Alarm) String() string {
	return fmt.Sprintf("%s (%s): %s", a.What, a.Oracle, a.Detail)
}

// check applies the oracles of every version: the invariants (O10), and that a status never claims
// to have observed a later generation than exists (O11).
func (t *trial) check(change Change) error {
	for i := range t.setup.scenario.Invariants {
		if err := t.setup.scenario.Invariants[i].violated(View{t.history}, change); err != nil {
			t.result.alarm("O10", t.setup.scenario.Invariants[i].Name, err.Error())
		}
	}
	t.injector.checkOccupied(change)
	observed, ok, _ := unstructured.NestedInt64(change.Object.Object, "status", "observedGeneration")
	if generation := change.Object.GetGeneration(); ok && generation > 0 && observed > generation {
		t.result.alarm("O11", "observedGeneration is ahead",
			fmt.Sprintf("%s %s has status.observedGeneration %d and generation %d",
				change.Object.GetKind(), generic(metaOf(change.Object)), observed, generation))
	}
	return nil
}

// View is the state of the control plane after a change.
type View struct{ history *history }

// List returns the objects of a kind that were created or changed in the run, in the order of
// their names. Don't change them.
func (v View) List(kind string) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, obj := range sorted(v.history) {
		if obj != nil && obj.GetKind() == kind {
			objects = append(objects, obj)
		}
	}
	return objects
}

func sorted(h *history) iter.Seq2[string, *unstructured.Unstructured] {
	return func(yield func(string, *unstructured.Unstructured) bool) {
		for _, key := range slices.SortedFunc(maps.Keys(h.now), compareKeys) {
			if !yield(key.Resource, h.now[key]) {
				return
			}
		}
	}
}

// compare applies the oracles that compare a run with those without faults: its end state (O1, or
// O5 if only the order of steps differs), how often it did something with each object (O2), and
// which objects remain at the end (O9).
func (e *explorer) compare(plan Plan, r *result, want *outcomes) []Alarm {
	var alarms []Alarm
	add := func(a Alarm) {
		if a.Detail != "" {
			alarms = append(alarms, a)
		}
	}
	if ends := want.end.differences(r.end); r.orderOnly {
		add(different("O5", "the end state depends on the order", ends, faultless))
	} else {
		add(different("O1", "another end state", ends, faultless))
	}
	add(Alarm{Oracle: "O2", What: "done more often", Detail: strings.Join(want.moreOften(plan, r), "\n")})
	add(different("O9", "left behind", leftBehind(r, want), faultless))
	slices.SortStableFunc(alarms, func(a, b Alarm) int { return cmp.Compare(rank[a.Oracle], rank[b.Oracle]) })
	return alarms
}

// different returns an alarm with differences from the state of a moment.
func different(oracle, what string, found []Difference, moment string) Alarm {
	a := Alarm{Oracle: oracle, What: what, Detail: lines(found, moment)}
	for _, d := range found {
		a.subjects = append(a.subjects, d.subject())
	}
	return a
}

// leftBehind returns the objects that remain in a run and not without faults, and those that have
// other fields. Objects of the operator that remain without faults need not remain: they are an
// alarm themselves; see baseline.leak.
func leftBehind(r *result, want *outcomes) []Difference {
	return slices.DeleteFunc(want.left.differences(r.left), func(d Difference) bool {
		return d.Have < d.Want && want.ownObjects[d.Object] && want.counts[created+d.Object] != nil
	})
}

// rank orders alarms of one run: the ones that explain most come first.
var rank = map[string]int{"O5": 0, "O2": 1, "O1": 2, "O9": 3}
