package managedfields

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"kelson.dev/apiserver/fastpath/fieldset"
	"kelson.dev/apiserver/resource"
)

// Apply merges a configuration of the manager with the name in by into the live state and returns
// the new state. Errors come from the library: conflicts with other managers, unless force is set,
// and invalid configurations.
func (m *MapManager) Apply(live, config runtime.Object, by string, force bool) (runtime.Object, error) {
	l, liveIsCustom := live.(*unstructured.Unstructured)
	c, configIsCustom := config.(*unstructured.Unstructured)
	if liveIsCustom && configIsCustom {
		if next, ok := m.apply(l, c, by, force); ok {
			return next, nil
		}
	}
	return m.Library.Apply(live, config, by, force)
}

// apply is the fast path of Apply. It handles configurations that have at least the fields of the
// manager's previous one, as is usual for operators, so no field must be removed. ok is false for
// all other configurations and for errors.
func (m *MapManager) apply(live, config *unstructured.Unstructured, by string,
	force bool) (next *unstructured.Unstructured, ok bool) {
	if by == "" || !m.matches(live) || !m.matches(config) || updatesLastApplied(by, live, config) {
		return nil, false
	}
	if _, given := listOf(config); given {
		return nil, false
	}
	if len(live.Object) == 2 { // the object does not exist yet
		return m.applyNew(config, by)
	}
	entries, managers, ok := m.read(live)
	if !ok || len(managers) == 0 {
		return nil, false
	}
	a := applying{managers, identity{by, operationApply, m.subresource}, force}
	next, managers, ok = m.applyValues(live, config, a)
	if !ok {
		next, managers, ok = m.applyTyped(live, config, a)
	}
	if ok {
		m.write(next, entries, managers)
	}
	return next, ok
}

// applying is an apply by self to an object with owners.
type applying struct {
	owners
	self  identity
	force bool
}

// lastApplied is the annotation of kubectl's client-side apply.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// annotated is an object with annotations.
type annotated interface{ GetAnnotations() map[string]string }

// updatesLastApplied reports whether the library may update lastApplied: it does if kubectl applies
// an object that has the annotation.
func updatesLastApplied(by string, live, config annotated) bool {
	return by == "kubectl" && (live.GetAnnotations()[lastApplied] != "" || config.GetAnnotations()[lastApplied] != "")
}

// applyNew returns the object that a configuration creates.
func (m *MapManager) applyNew(config *unstructured.Unstructured, by string) (next *unstructured.Unstructured, ok bool) {
	own, ok := m.all(config.Object, true)
	if !ok {
		return nil, false
	}
	next = config.DeepCopy()
	m.Default(next)
	m.write(next, nil, owners{{identity: identity{by, operationApply, m.subresource}, fields: own, time: now(),
		at: -1}})
	return next, true
}

// applyValues implements apply for configurations whose fields all exist in the live object,
// possibly with other values.
func (m *MapManager) applyValues(live, config *unstructured.Unstructured,
	a applying) (next *unstructured.Unstructured, _ owners, ok bool) {
	w := fieldset.NewWriter()
	defer w.Free()
	if !w.Object(config.Object, m.Shape, fieldset.Options{Reset: m.Reset}) {
		return nil, nil, false
	}
	own, err := m.cache.read(w.Raw)
	if err != nil || !m.keeps(a.owners, a.self, own) || !m.accepts(live.Object) {
		return nil, nil, false
	}
	w.Raw = w.Raw[:0]
	o := overlay[any, mapValues]{Writer: w, reset: m.Reset}
	merged, changed, ok := o.merge(config.Object, live.Object, m.Shape)
	if !ok {
		return nil, nil, false
	}
	c, ok := changeOf(w.Raw, a.owners, a.self)
	if !ok || !a.force && m.conflicts(a.owners, c, a.self) {
		return nil, nil, false
	}
	next = &unstructured.Unstructured{Object: shallow(merged.(map[string]any))}
	if changed {
		m.Default(next)
	}
	managers, ok := m.afterApply(a.owners, c, a.self, own, changed)
	return next, managers, ok
}

// applyTyped implements apply with the merge library, without the conversions around it.
func (m *MapManager) applyTyped(live, config *unstructured.Unstructured,
	a applying) (next *unstructured.Unstructured, _ owners, ok bool) {
	if resource.Wide(live) || resource.Wide(config) {
		return nil, nil, false
	}
	is, err := m.Types.ObjectToTyped(bare(live), typed.AllowDuplicates)
	if err != nil {
		return nil, nil, false
	}
	wants, err := m.Types.ObjectToTyped(config)
	if err != nil {
		return nil, nil, false
	}
	wanted, err := wants.ToFieldSet()
	if err != nil {
		return nil, nil, false
	}
	if m.filter != nil {
		wanted = m.filter.Filter(wanted)
	}
	own, err := m.cache.ofSet(wanted.Difference(unowned), true)
	if err != nil || !m.keeps(a.owners, a.self, own) {
		return nil, nil, false
	}
	merged, err := is.Merge(wants)
	if err != nil {
		return nil, nil, false
	}
	compared, err := is.Compare(merged)
	if err != nil {
		return nil, nil, false
	}
	c := change{set: m.filtered(compared.Modified.Union(compared.Added)), removed: m.filtered(compared.Removed)}
	if !a.force && m.conflicts(a.owners, c, a.self) {
		return nil, nil, false
	}
	changed := !value.EqualsUsing(value.NewFreelistAllocator(), is.AsValue(), merged.AsValue())
	managers, ok := m.afterApply(a.owners, c, a.self, own, changed)
	if !ok {
		return nil, nil, false
	}
	if !changed {
		return &unstructured.Unstructured{Object: shallow(live.Object)}, managers, true
	}
	object, err := m.Types.TypedToObject(merged)
	if err != nil {
		return nil, nil, false
	}
	if next, ok = object.(*unstructured.Unstructured); !ok {
		return nil, nil, false
	}
	m.Default(next)
	return next, managers, true
}
