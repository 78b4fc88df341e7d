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
func (e *explorer) alarms(plan Plan, r, reference *result) []Alarm {
	if len(r.alarms) > 0 || r.pruned {
		return r.alarms
	}
	if plan.foreign() {
		return e.lost(plan, r)
	}
	taken := plan.actions()
	switch {
	case len(taken) == 0:
		return append(compare(plan, r, reference, e.scenario.Ignore), persistent(r, reference)...)
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
		lines := slices.DeleteFunc(withoutIgnored(e.scenario.Ignore, r.left.Diff(reference.left)), func(line string) bool {
			return !strings.Contains(line, existsNow) && !strings.Contains(line, thereAre)
		})
		if len(lines) > 0 {
			return []Alarm{{Oracle: "O9", What: "left behind", Detail: strings.Join(lines, "\n")}}
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
	// The counts of creations and deletions are not compared: while objects are being deleted, an
	// operator with a late cache may create their children again, and the garbage collector deletes
	// these.
	return slices.DeleteFunc(append(compare(plan, r, variant, e.scenario.Ignore), persistent(r, variant)...), func(a Alarm) bool { return a.Oracle == "O2" })
}

// ignored raises an alarm (O6) if a change of a field has no effect, although creating the object
// with the changed field has one.
func (e *explorer) ignored(plan Plan, r, reference *result) []Alarm {
	if !e.scenario.Reversible || len(plan) != 1 || plan[0].Kind != SetField || r.effect {
		return nil
	}
	first := plan[0]
	first.Kind = CreateWith
	for first.At.N = 1; first.At.N <= len(e.scenario.Inputs); first.At.N++ {
		if input := e.scenario.Inputs[first.At.N-1]; input.again != nil && strings.HasSuffix(" "+first.At.Object, input.apply.GetName()) {
			break
		}
	}
	created := e.run(Plan{first})
	if created.failed != nil || len(created.unused) > 0 || len(created.alarms) > 0 {
		return nil
	}
	object := first.At.Resource + " " + first.At.Object
	lines := slices.DeleteFunc(withoutIgnored(e.scenario.Ignore, created.end.Diff(reference.end)), func(line string) bool {
		return strings.HasPrefix(line, object+".") || strings.HasPrefix(line, object+":")
	})
	if len(lines) == 0 {
		return nil
	}
	return []Alarm{{Oracle: "O6", What: "a change of a field has no effect",
		Detail: object + "." + first.Field + "=" + first.Value + " is accepted and ignored. If the object is created with it:\n" + strings.Join(lines, "\n")}}
}
