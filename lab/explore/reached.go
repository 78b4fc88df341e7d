package explore

import (
	"slices"
	"strings"
)

// reached has the points of the runs so far, by the key of the plan. It finds plans whose runs would
// be equal to earlier ones. Runs are deterministic, so these are equal:
//
//   - The runs of two plans with the same faults. Faults happen at their points, so the order of the
//     faults in a plan does not matter.
//   - The run of a plan, and that of the same plan with another fault whose point the first one does
//     not reach: until that fault happens, both runs are the same.
//
// The runs of a Binary are not deterministic.
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

// add notes the run of a plan. A run that has ended early is not known.
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

// equal returns the key of a plan whose run the run of another plan would be equal to; "" for none.
func (r reached) equal(plan Plan) string {
	if _, ok := r[plan.key()]; ok {
		return plan.key()
	}
	for i, f := range plan {
		if f.Kind.isOrder() || f.isAction() {
			continue // they always happen, or depend on the objects at the moment
		}
		without := append(slices.Clone(plan[:i]), plan[i+1:]...).key()
		if points, ok := r[without]; ok && !points[f.At] {
			return without
		}
	}
	return ""
}
