package explore

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Several plans show the same bug, and one field may be wrong because of different bugs: a status
// stays Pending after a crash, because the next process does not continue, and is Failed after an
// error, because the operator gives up. So alarms have probably the same cause if
//
//   - at least half of what differs in one also differs in the other, with the same values,
//   - no field that differs in both has another value, unless their faults are of the same family,
//   - their runs have something in common in what the operator has created and deleted more often
//     or less often than without faults. If only one run has done anything more or less often, the
//     faults must be of the same family: a crash, an old view, or a request that fails.

// subject identifies what differs: a field and its value, or an object of which there are more or
// fewer. Numbers do not matter, because they depend on the moment of the fault.
func (d Difference) subject() string {
	switch {
	case d.Path != "":
		return d.Object + d.Path + valueMark + numbers.ReplaceAllString(d.Value, "#")
	case d.added():
		return "more " + d.Object
	}
	return "fewer " + d.Object
}

// valueMark separates a field from its value in a subject.
const valueMark = "\x00"

// contradicts reports whether a field differs in both alarms, with different values.
func contradicts(a, b []string) bool {
	for _, x := range a {
		field, _, ok := strings.Cut(x, valueMark)
		if ok && !slices.Contains(b, x) && slices.ContainsFunc(b, func(y string) bool {
			return strings.HasPrefix(y, field+valueMark)
		}) {
			return true
		}
	}
	return false
}

// effectsOf returns what the operator has created and deleted more or less often in a run than in
// the run without faults, by resource, such as "more created pods". The result is nil if that is
// not known: the run has ended early, or its inputs differ.
func effectsOf(plan Plan, r, reference *result) []string {
	if reference == nil || r.counts == nil || len(plan.actions()) > 0 {
		return nil
	}
	ids, more := maps.Clone(r.ownObjects), map[string]int{}
	maps.Copy(ids, reference.ownObjects)
	for id := range ids {
		resource, _, _ := strings.Cut(id, " ")
		for _, verb := range []string{created, deleted} {
			more[verb+resource] += r.counts[verb+id] - reference.counts[verb+id]
		}
	}
	effects := []string{}
	for _, what := range slices.Sorted(maps.Keys(more)) {
		switch n := more[what]; {
		case n > 0:
			effects = append(effects, "more "+what)
		case n < 0:
			effects = append(effects, "fewer "+what)
		}
	}
	return effects
}

// sameCause reports whether two alarms probably have the same cause.
func (a *Alarm) sameCause(b *Alarm) bool {
	switch {
	case a.signature() == b.signature():
		return true
	case !a.sameEffects(b):
		return false
	case a.Oracle == "O2" || b.Oracle == "O2": // about the effects themselves
		return common(a.effects, b.effects) > 0
	case contradicts(a.subjects, b.subjects) && common(a.Plan.families(), b.Plan.families()) == 0:
		return false
	}
	return 2*common(a.subjects, b.subjects) >= max(1, min(len(a.subjects), len(b.subjects)))
}

// sameEffects reports whether two runs may have the same cause, judged by their effects.
func (a *Alarm) sameEffects(b *Alarm) bool {
	switch {
	case a.effects == nil || b.effects == nil || common(a.effects, b.effects) > 0:
		return true
	case len(a.effects) == 0 && len(b.effects) == 0:
		return true
	case len(a.effects) == 0 || len(b.effects) == 0:
		return common(a.Plan.families(), b.Plan.families()) > 0
	}
	return false
}

// families are the kinds of faults that show the same bugs. Another kind is a family of its own.
var families = map[Kind]Kind{
	KillBefore: KillAfter, Down: KillAfter, TwoLeaders: KillAfter,
	KillStale: Freeze, KillOld: Freeze, FreezeAll: Freeze, Cut: Freeze, ServerRestart: Freeze, Hold: Freeze,
	HoldInput: Freeze, SlowResponse: Freeze, Order: Freeze, Priorities: Freeze,
	Conflict: Internal, TooMany: Internal, Deny: Internal, Revoke: Internal, Quota: Internal, Lose: Internal,
}

// families returns the families of the faults of a plan, each as one of its kinds.
func (p Plan) families() (all []string) {
	for _, f := range p {
		all = append(all, string(cmp.Or(families[f.Kind], f.Kind)))
	}
	return all
}

// common returns the number of elements of a that are also in b.
func common(a, b []string) (n int) {
	for _, x := range a {
		if slices.Contains(b, x) {
			n++
		}
	}
	return n
}
