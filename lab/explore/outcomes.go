package explore

import (
	"maps"
	"slices"
	"strings"
)

// outcomes are the results of runs that should be equal: the runs without faults, or the run with
// only the actions of a plan. An operator that uses random values or has a race has several
// outcomes. A run with faults is compared with the nearest one, without the fields and objects that
// differ between them.
type outcomes struct {
	runs       []*result
	end, left  *expected
	failing    map[string]string  // the errors that persist in any of the runs
	ownObjects map[string]bool    // the objects that the operator has created or deleted in any
	counts     map[string]*limits // how often something was done, as in result.counts
}

// limits are the least and the greatest number in several runs.
type limits struct{ least, most int }

func newOutcomes(ignore []string, runs ...*result) *outcomes {
	o := &outcomes{runs: runs, failing: map[string]string{}, ownObjects: map[string]bool{},
		counts: map[string]*limits{}}
	ends, lefts := make([]State, len(runs)), make([]State, len(runs))
	for i, r := range runs {
		ends[i], lefts[i] = r.end, r.left
		maps.Copy(o.failing, r.failing)
		maps.Copy(o.ownObjects, r.ownObjects)
	}
	o.end, o.left = newExpected(ignore, ends), newExpected(ignore, lefts)
	o.extend(runs)
	return o
}

// extend extends the limits of the counts to further runs without faults.
func (o *outcomes) extend(runs []*result) {
	first := len(o.counts) == 0
	for _, r := range runs {
		for what := range r.counts {
			if o.counts[what] == nil {
				o.counts[what] = &limits{}
				if first {
					o.counts[what].least = r.counts[what]
				}
			}
		}
		for what, l := range o.counts {
			l.least, l.most = min(l.least, r.counts[what]), max(l.most, r.counts[what])
		}
		first = false
	}
}

// most returns how often something was done at most.
func (o *outcomes) most(what string) int {
	if l := o.counts[what]; l != nil {
		return l.most
	}
	return 0
}

// with returns the outcomes of a run with actions. It may differ in what differs without them.
func (o *outcomes) with(ignore []string, r *result) *outcomes {
	changed := newOutcomes(ignore, r)
	changed.end, changed.left = o.end.like(r.end), o.left.like(r.left)
	return changed
}

// varying returns the fields and objects that differ between the runs.
func (o *outcomes) varying() (all []string) {
	seen := map[string]bool{}
	for _, x := range []*expected{o.end, o.left} {
		for field := range x.fields {
			object, path, _ := strings.Cut(field, " .")
			seen[object+"."+path] = true
		}
		for group := range x.groups {
			seen[strings.TrimSpace(group)+": which objects exist"] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// expected are the states in which a run may end.
type expected struct {
	ignore []string
	states []State
	// fields are those that differ between the states, and groups the resources and namespaces with
	// objects that exist in only some of the states. The other objects exist in all states.
	fields, groups map[string]bool
	everywhere     map[string]bool
}

func newExpected(ignore []string, states []State) *expected {
	x := &expected{ignore: ignore, states: states, fields: map[string]bool{}, groups: map[string]bool{},
		everywhere: map[string]bool{}}
	for i, a := range states {
		for id := range a.objects {
			x.everywhere[id] = true
		}
		for _, b := range states[:i] {
			for _, d := range withoutIgnored(ignore, a.Diff(b)) {
				if d.Path != "" {
					x.fields[d.Object+" "+indexless(d.parts)] = true
				} else {
					x.groups[groupOf(d.Object)] = true
				}
			}
		}
	}
	for id := range x.everywhere {
		for _, s := range states {
			if len(s.objects[id]) != len(states[0].objects[id]) {
				delete(x.everywhere, id)
			}
		}
	}
	return x
}

// like returns the expectation of another state, which may differ in the same fields and objects.
func (x *expected) like(s State) *expected {
	other := *x
	other.states = []State{s}
	return &other
}

// varies reports whether anything differs between the states.
func (x *expected) varies() bool { return len(x.fields)+len(x.groups) > 0 }

// differences returns the differences between a state and the nearest expected one.
func (x *expected) differences(s State) (nearest []Difference) {
	for i, want := range x.states {
		found := slices.DeleteFunc(withoutIgnored(x.ignore, s.Diff(want)), func(d Difference) bool {
			return x.mayDiffer(s, d)
		})
		if i == 0 || len(found) < len(nearest) {
			nearest = found
		}
	}
	return nearest
}

// mayDiffer reports whether the states also differ in the field of a difference, or whether an
// object may have another name and the state has as many of them.
func (x *expected) mayDiffer(s State, d Difference) bool {
	if d.Path != "" {
		for n := range d.parts {
			if x.fields[d.Object+" "+indexless(d.parts[:n+1])] {
				return true
			}
		}
		return false
	}
	group := groupOf(d.Object)
	if !x.groups[group] || x.everywhere[d.Object] {
		return false
	}
	least, most := x.states[0].size(group), x.states[0].size(group)
	for _, other := range x.states {
		least, most = min(least, other.size(group)), max(most, other.size(group))
	}
	return least <= s.size(group) && s.size(group) <= most
}

// groupOf returns the resource and namespace of an object, as RESOURCE NAMESPACE.
func groupOf(id string) string {
	resource, object, _ := strings.Cut(id, " ")
	namespace, _, _ := strings.Cut(object, "/")
	if namespace == object {
		return resource + " "
	}
	return resource + " " + namespace
}

// size returns the number of objects of a group.
func (s State) size(group string) (n int) {
	for id, all := range s.objects {
		if groupOf(id) == group {
			n += len(all)
		}
	}
	return n
}

// indexless returns a path with [*] for the indexes of lists, whose order may differ.
func indexless(parts []string) string {
	var b strings.Builder
	for _, part := range parts {
		if strings.Trim(part, "[]0123456789") == "" {
			part = "[*]"
		}
		b.WriteString(part)
	}
	return b.String()
}
