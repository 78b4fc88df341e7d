package explore

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Alarm is a violation that a run has shown.
type Alarm struct {
	// Oracle is its number in docs/guides/testing.md, such as O1; What is its name.
	Oracle, What string
	// Detail describes the violation, with the objects and fields.
	Detail string
	// Plan is the shortest plan known to cause it.
	Plan Plan
	// Steps are the requests, events and faults of the run.
	Steps []string
	// Curve shows when the failure became inevitable; nil for a replay and for a Binary.
	Curve []CurvePoint
	// Seen is the number of runs of the plan, out of Runs, that raised the alarm. Runs is 1 unless
	// the operator is a Binary, whose runs differ.
	Seen, Runs int

	fatal            bool // the trial cannot continue
	passing, failing *FailureRun
}

func (a Alarm) String() string {
	return fmt.Sprintf("%s (%s): %s", a.What, a.Oracle, a.Detail)
}

// alarm adds an alarm to the trial's result.
func (t *trial) alarm(oracle, what, detail string) {
	t.log("ALARM " + what + ": " + detail)
	t.result.alarms = append(t.result.alarms, Alarm{Oracle: oracle, What: what, Detail: detail})
}

// check applies the oracles of every version: the invariants (O10), and that a status never claims
// to have observed a later generation than exists (O11).
func (t *trial) check(change Change) error {
	for i := range t.scenario.Invariants {
		if err := t.scenario.Invariants[i].violated(View{t}, change); err != nil {
			t.alarm("O10", t.scenario.Invariants[i].Name, err.Error())
		}
	}
	observed, ok, _ := unstructured.NestedInt64(change.Object.Object, "status", "observedGeneration")
	if generation := change.Object.GetGeneration(); ok && generation > 0 && observed > generation {
		t.alarm("O11", "observedGeneration is ahead", fmt.Sprintf("%s %s has status.observedGeneration %d and generation %d",
			change.Object.GetKind(), generic(metaOf(change.Object)), observed, generation))
	}
	return nil
}

// View is the state of the control plane after a change.
type View struct{ trial *trial }

// List returns the objects of a kind that were created or changed in the run, in the order of
// their names. Don't change them.
func (v View) List(kind string) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, obj := range sorted(v.trial.history) {
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

// compare applies the oracles that compare a run with the one without faults: its end state (O1, or
// O5 if only the order of steps differs), how often it created and deleted objects (O2), and which
// objects remain at the end (O9).
func compare(plan Plan, r, reference *result, ignore []string) []Alarm {
	var alarms []Alarm
	add := func(oracle, what string, lines []string) {
		if len(lines) > 0 {
			alarms = append(alarms, Alarm{Oracle: oracle, What: what, Detail: strings.Join(lines, "\n")})
		}
	}
	if ends := withoutIgnored(ignore, r.end.Diff(reference.end)); r.orderOnly {
		add("O5", "the end state depends on the order", ends)
	} else {
		add("O1", "another end state", ends)
	}
	var counts []string
	count := func(verb string, have, want map[string]int) {
		for _, id := range slices.Sorted(maps.Keys(r.ownObjects)) {
			if have[id] > want[id] && !plan.duplicates(id) {
				counts = append(counts, fmt.Sprintf("%s is %s %s, without faults %s", id, verb, times(have[id]), times(want[id])))
			}
		}
	}
	count("created", r.creates, reference.creates)
	count("deleted", r.deletes, reference.deletes)
	add("O2", "done more often", counts)
	add("O9", "left behind", withoutIgnored(ignore, r.left.Diff(reference.left)))
	slices.SortStableFunc(alarms, func(a, b Alarm) int { return cmp.Compare(rank[a.Oracle], rank[b.Oracle]) })
	return alarms
}

// duplicates reports whether a former leader creates an object with a generated name under the
// plan. The server cannot refuse this write, so the next leader finds one more object.
func (p Plan) duplicates(id string) bool {
	return slices.ContainsFunc(p, func(f Fault) bool {
		return f.Kind == TwoLeaders && f.At.Verb == "create" && strings.HasSuffix(id, "*") && f.At.Resource+" "+f.At.Object == id
	})
}

// rank orders alarms of one run: the ones that explain most come first.
var rank = map[string]int{"O5": 0, "O2": 1, "O1": 2, "O9": 3}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// withoutIgnored drops the differences in ignored fields, and in fields below them.
func withoutIgnored(ignore, lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool {
		for _, entry := range ignore {
			resource, field, _ := strings.Cut(entry, " ")
			at, isField := strings.CutPrefix(line, resource+" ")
			at, _, ok := strings.Cut(at, ": ")
			if isField && ok && strings.Contains(at+".", "."+field+".") {
				return true
			}
		}
		return false
	})
}
