package fieldsets

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Apply merges what by wants of an object into its live state, and gives the new state. The errors are the library's: conflicts with others
// unless they are forced, and what is wrong with config.
func (m *Manager) Apply(live, config runtime.Object, by string, force bool) (runtime.Object, error) {
	l, isCustom := live.(*unstructured.Unstructured)
	c, isToo := config.(*unstructured.Unstructured)
	if isCustom && isToo {
		if next, ok := m.apply(l, c, by, force); ok {
			return next, nil
		}
	}
	return m.Library.Apply(live, config, by, force)
}

// lastApplied is the annotation of kubectl's client-side apply, which the library keeps in step.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// apply is for somebody who applied before, and has no fewer or other fields now, which is what operators do all day; ok is false else, and
// where there is an error to tell.
func (m *Manager) apply(live, config *unstructured.Unstructured, by string, force bool) (next *unstructured.Unstructured, ok bool) {
	if !m.mine(live) || !m.mine(config) || by == "" || by == "kubectl" && live.GetAnnotations()[lastApplied] != "" {
		return nil, false
	}
	if _, given := listOf(config); given {
		return nil, false
	}
	managers, ok := m.read(live)
	if !ok {
		return nil, false
	}
	self := identity{by, operationApply, m.Subresource}
	at := managers.find(self)
	if at < 0 {
		return nil, false
	}
	had, err := managers[at].fields.set()
	if err != nil {
		return nil, false
	}
	is, err := m.Types.ObjectToTyped(bare(live), typed.AllowDuplicates)
	if err != nil {
		return nil, false
	}
	wants, err := m.Types.ObjectToTyped(config)
	if err != nil {
		return nil, false
	}
	wanted, err := wants.ToFieldSet()
	if err != nil {
		return nil, false
	}
	if m.filter != nil {
		wanted = m.filter.Filter(wanted)
	}
	if !wanted.Difference(unowned).Equals(had) {
		return nil, false // something may have to go
	}
	merged, err := is.Merge(wants)
	if err != nil {
		return nil, false
	}
	compared, err := is.Compare(merged)
	if err != nil {
		return nil, false
	}
	c := &change{set: m.filtered(compared.Modified.Union(compared.Added)), removed: m.filtered(compared.Removed), live: is}
	if !force && m.conflicts(managers, c, self) {
		return nil, false
	}
	if value.EqualsUsing(value.NewFreelistAllocator(), is.AsValue(), merged.AsValue()) {
		for _, e := range managers {
			if !m.settled(e.fields, c) {
				return nil, false
			}
		}
		return live.DeepCopy(), true
	}
	if managers, ok = m.lost(managers, c, self); !ok {
		return nil, false
	}
	if at = managers.find(self); at < 0 {
		return nil, false
	}
	managers[at].time, managers[at].raw = now(), nil
	made, err := m.Types.TypedToObject(merged)
	if err != nil {
		return nil, false
	}
	if next, ok = made.(*unstructured.Unstructured); !ok {
		return nil, false
	}
	m.Default(next)
	m.write(next, managers)
	return next, true
}

// conflicts says whether others have fields that change.
func (m *Manager) conflicts(managers entries, c *change, self identity) bool {
	if c.set == nil {
		return false
	}
	for _, e := range managers {
		if e.identity == self {
			continue
		}
		if set, err := e.fields.set(); err != nil || !disjoint(set, c.set) {
			return true
		}
	}
	return false
}

func disjoint(a, b *fieldpath.Set) bool { return a.Intersection(b).Empty() }
