package explore

import (
	"slices"
	"strings"
)

// alarms returns the alarms of a run, the one that explains most first.
//
// The correct behavior after an action depends on the operator: it may recreate a child that a user
// has deleted, or not. So only these oracles judge a run with only actions: those that do not need
// a comparison, those that compare the states before and after the action, and the one for the
// objects that remain at the end. A run with actions and faults is compared with the run with the
// same actions.
func (e *explorer) alarms(plan Plan, r *result, reference *outcomes) []Alarm {
	if len(r.alarms) > 0 || r.pruned {
		return r.alarms
	}
	if plan.foreign() {
		return e.lost(plan, r)
	}
	if plan.has(Occupied) {
		// As after an action, the right state depends on the operator. Only oracles that need no
		// comparison judge the run.
		return nil
	}
	if plan.begin() != newest {
		return e.afterVariant(plan, r, reference)
	}
	taken := plan.actions()
	switch {
	case len(taken) == 0:
		found := append(e.compare(plan, r, reference), persistent(r, reference)...)
		if len(found) == 0 {
			return e.less(plan, r, reference)
		}
		return found
	case len(taken) == len(plan):
		e.variants[taken.String()] = r
		if alarms := persistent(r, reference); len(alarms) > 0 {
			return alarms
		}
		if slices.ContainsFunc(taken, func(f Fault) bool { return f.Kind == Batch }) {
			// an operator that leaves objects behind for one object also leaves them behind for its
			// copies
			return nil
		}
		more := slices.DeleteFunc(reference.left.differences(r.left), func(d Difference) bool { return !d.added() })
		if len(more) > 0 {
			return []Alarm{different("O9", "left behind", more, faultless)}
		}
		return e.ignored(taken, r, reference)
	}
	variant, ok := e.variants[taken.String()]
	if !ok {
		variant = e.run(taken)
		e.variants[taken.String()] = variant
	}
	if variant.failed != nil || len(variant.alarms) > 0 {
		return nil // the actions alone raise the alarm
	}
	want := reference.with(e.scenario.Ignore, variant)
	// The counts of creations and deletions are not compared: while objects are being deleted, an
	// operator with a late cache may create their children again, and the garbage collector deletes
	// these.
	return slices.DeleteFunc(append(e.compare(plan, r, want), persistent(r, want)...), func(a Alarm) bool {
		return a.Oracle == "O2"
	})
}

// orderedRuns is the number of runs without faults in random orders that confirm an alarm about
// something that was done less often than without faults.
const orderedRuns = 3

// less raises an alarm (O2) if a run has done something less often than without faults, and
// otherwise ends equally.
func (e *explorer) less(plan Plan, r *result, reference *outcomes) []Alarm {
	if len(reference.lessOften(plan, r)) == 0 {
		return nil
	}
	if !e.ordered {
		e.ordered = true
		for seed := range uint64(orderedRuns) {
			if other := e.run(Plan{{Kind: Order, Seed: seed}}); other.failed == nil && len(other.alarms) == 0 {
				reference.extend([]*result{other})
			}
		}
	}
	found := reference.lessOften(plan, r)
	if len(found) == 0 {
		return nil
	}
	return []Alarm{{Oracle: "O2", What: "the end is the same, but something was done less often",
		Detail: strings.Join(found, "\n")}}
}

// ignored raises an alarm (O6) if a change of a field has no effect, although creating the object
// with the changed field has one.
func (e *explorer) ignored(plan Plan, r *result, reference *outcomes) []Alarm {
	if !e.scenario.Reversible || len(plan) != 1 || plan[0].Kind != SetField || r.effect {
		return nil
	}
	first := plan[0]
	first.Kind = CreateWith
	for first.At.N = 1; first.At.N <= len(e.scenario.Inputs); first.At.N++ {
		if input := e.scenario.Inputs[first.At.N-1]; input.again != nil &&
			strings.HasSuffix(" "+first.At.Object, input.apply.GetName()) {
			break
		}
	}
	other := e.run(Plan{first})
	if other.failed != nil || len(other.unused) > 0 || len(other.alarms) > 0 {
		return nil
	}
	object := first.At.Resource + " " + first.At.Object
	effects := slices.DeleteFunc(reference.end.differences(other.end), func(d Difference) bool {
		return d.Object == object
	})
	if len(effects) == 0 {
		return nil
	}
	return []Alarm{{Oracle: "O6", What: "a change of a field has no effect",
		Detail: object + "." + first.Field + "=" + first.Value +
			" is accepted and ignored. If the object is created with it:\n" + lines(effects, faultless)}}
}
