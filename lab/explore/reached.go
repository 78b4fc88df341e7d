package explore

import (
	"slices"
	"strings"
)

// reached contains the points that the earlier runs reached, by the key of the plan. It finds plans
// whose runs would be equal to earlier ones. Runs are deterministic, so these runs are equal:
//
//   - The runs of two plans with the same faults. Faults happen at their points, so their order in
//     a plan does not matter.
//   - The run of a plan that does not reach a point, and the run of the same plan with a fault at
//     this point. That fault never happens, and until it happens both runs are the same.
//
// The runs of a Binary are not deterministic, so reached is not used for them.
type reached map[string]map[Point]bool

// key is equal for plans with the same faults.
func (p Plan) key() string {
	parts := make([]string, len(p))
	for i, f := range p {
		parts[i] = f.String()
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// add records the run of a plan. It ignores runs that ended early.
func (r reached) add(plan Plan, run *result) {
	if run.failed != nil || run.pruned {
		return
	}
	points := make(map[Point]bool, len(run.points))
	for _, v := range run.points {
		points[v.Point] = true
	}
	r[plan.key()] = points
}

// equal returns the key of an earlier plan whose run equals the run of the given plan; "" for none.
func (r reached) equal(plan Plan) string {
	if _, ok := r[plan.key()]; ok {
		return plan.key()
	}
	for i, f := range plan {
		if f.Kind.isOrder() || f.Kind == Down || f.isAction() {
			continue // orders and Down always have an effect; actions depend on the current objects
		}
		if rest := slices.Delete(slices.Clone(plan), i, i+1); rest.stale() != plan.stale() {
			continue // the run takes place against another server
		}
		shorter := append(slices.Clone(plan[:i]), plan[i+1:]...).key()
		if points, ok := r[shorter]; ok && !points[f.At] {
			return shorter
		}
	}
	return ""
}
