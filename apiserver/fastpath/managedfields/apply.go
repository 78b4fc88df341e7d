package managedfields

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"kelson.dev/apiserver/fastpath/fieldset"
	"kelson.dev/apiserver/fastpath/shape"
	"kelson.dev/operator/tree"
)

// Apply merges a configuration of the manager by into the live state and returns the new state.
// Errors come from the library: conflicts with other managers, unless force is set, and invalid
// configurations.
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

// lastApplied is the annotation of kubectl's client-side apply, which the library updates.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// apply is the fast path of Apply. It handles configurations that have at least the fields of the
// manager's previous one, so that no field must be removed, as is usual for operators. ok is false
// for all others and for errors.
func (m *Manager) apply(live, config *unstructured.Unstructured, by string, force bool) (next *unstructured.Unstructured, ok bool) {
	if !m.matches(live) || !m.matches(config) || by == "" || by == "kubectl" && live.GetAnnotations()[lastApplied] != "" {
		return nil, false
	}
	if _, given := listOf(config); given {
		return nil, false
	}
	if len(live.Object) == 2 { // the object does not exist yet
		return m.made(config, by)
	}
	managers, ok := m.read(live)
	if !ok || len(managers) == 0 {
		return nil, false
	}
	self := identity{by, operationApply, m.Subresource}
	if next, ok := m.overlaid(live, config, managers, self, force); ok {
		return next, true
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
	own, err := m.cache.ofSet(wanted.Difference(unowned))
	if err != nil || !m.keeps(managers, self, own) {
		return nil, false
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
		next = &unstructured.Unstructured{Object: shallow(live.Object)}
		return next, m.applied(next, managers, c, self, own, false)
	}
	made, err := m.Types.TypedToObject(merged)
	if err != nil {
		return nil, false
	}
	if next, ok = made.(*unstructured.Unstructured); !ok {
		return nil, false
	}
	m.Default(next)
	return next, m.applied(next, managers, c, self, own, true)
}

// made returns the object that a configuration creates.
func (m *Manager) made(config *unstructured.Unstructured, by string) (next *unstructured.Unstructured, ok bool) {
	own, ok := m.fresh(config.Object, true)
	if !ok {
		return nil, false
	}
	next = config.DeepCopy()
	m.Default(next)
	m.write(next, entries{{identity: identity{by, operationApply, m.Subresource}, fields: own, time: now()}})
	return next, true
}

// keeps reports whether own contains all fields that self applied before.
func (m *Manager) keeps(managers entries, self identity, own *fields) bool {
	at := managers.find(self)
	if at < 0 || managers[at].fields == own {
		return true
	}
	had, err := managers[at].fields.set()
	if err != nil {
		return false
	}
	has, err := own.set()
	return err == nil && contains(has, had)
}

// applied writes the managers after self has applied own, which caused the change c. If changed is
// false, self keeps the time of its last apply. applied returns false if the library must decide.
func (m *Manager) applied(next *unstructured.Unstructured, managers entries, c *change, self identity, own *fields, changed bool) bool {
	managers = slices.Clone(managers) // if this returns false, the caller still needs the old ones
	if at := managers.find(self); at >= 0 && managers[at].fields != own {
		managers[at].fields, managers[at].raw = own, nil
	} else if at < 0 {
		managers = append(managers, entry{identity: self, fields: own})
	}
	managers, ok := m.lost(managers, c, self)
	if !ok {
		return false
	}
	at := managers.find(self)
	if at < 0 {
		return false
	}
	if changed {
		managers[at].time, managers[at].raw = now(), nil
	}
	m.write(next, managers)
	return true
}

// overlaid is apply for configurations whose fields all exist in the live object; their values may
// differ.
func (m *Manager) overlaid(live, config *unstructured.Unstructured, managers entries, self identity, force bool) (next *unstructured.Unstructured, ok bool) {
	own, ok := m.fresh(config.Object, true)
	if !ok || !m.keeps(managers, self, own) {
		return nil, false
	}
	o := overlay{}
	content, ok := o.root(live.Object, config.Object, m)
	if !ok {
		return nil, false
	}
	c := &change{set: m.filteredPaths(o.paths)}
	if !force && m.conflicts(managers, c, self) {
		return nil, false
	}
	next = &unstructured.Unstructured{Object: content}
	if len(o.paths) > 0 {
		m.Default(next)
	}
	return next, m.applied(next, managers, c, self, own, len(o.paths) > 0)
}

// overlay replaces values of an object by those of a configuration.
type overlay struct {
	path  fieldpath.Path
	paths []fieldpath.Path // of the values that differ
}

// root returns a new object, which shares with the old one everything that is not in the
// configuration. ok is false if the configuration has fields that the object lacks, or parts that
// only the library understands.
func (o *overlay) root(object, config map[string]any, m *Manager) (map[string]any, bool) {
	out := shallow(object)
	metadata, ok := out["metadata"].(map[string]any)
	if !ok {
		return nil, false
	}
	for name, value := range config {
		switch {
		case name == "apiVersion" || name == "kind":
		case name == "metadata":
			wanted, ok := value.(map[string]any)
			if !ok {
				return nil, false
			}
			for name, value := range wanted {
				switch {
				case name == "labels" || name == "annotations":
					o.path = fieldpath.MakePathOrDie("metadata", name)
					if metadata[name], ok = o.over(metadata[name], value, member(m.member("metadata"), name)); !ok {
						return nil, false
					}
				case !fieldset.Identifies(name) || metadata[name] != value:
					return nil, false
				}
			}
		case slices.Contains(m.Reset, name):
			return nil, false
		default:
			was, ok := object[name]
			if !ok {
				return nil, false
			}
			o.path = fieldpath.Path{fieldpath.FieldNameElement(name)}
			if out[name], ok = o.over(was, value, m.member(name)); !ok {
				return nil, false
			}
		}
	}
	return out, true
}

// over returns was with the members and elements of value. ok is false if only the library can
// merge them.
func (o *overlay) over(was, value any, s *shape.Shape) (any, bool) {
	if s == nil {
		return nil, false
	}
	switch v := value.(type) {
	case map[string]any:
		old, ok := was.(map[string]any)
		if !ok || s.Kind != shape.Object || len(v) == 0 || len(old) == 0 {
			return nil, false
		}
		if s.Atomic {
			return o.replace(old, v)
		}
		var out map[string]any
		for name, value := range v {
			before, ok := old[name]
			if !ok {
				return nil, false
			}
			o.path = append(o.path, fieldpath.FieldNameElement(name))
			n := len(o.paths)
			after, ok := o.over(before, value, member(s, name))
			if !ok {
				return nil, false
			}
			o.path = o.path[:len(o.path)-1]
			if len(o.paths) == n {
				continue
			}
			if out == nil {
				out = maps.Clone(old)
			}
			out[name] = after
		}
		if out == nil {
			return was, true
		}
		return out, true
	case []any:
		old, ok := was.([]any)
		if !ok || s.Kind != shape.List || !s.Atomic || len(v) == 0 || len(old) == 0 {
			return nil, false
		}
		return o.replace(old, v)
	default:
		if !s.Has(was) || !s.Has(value) || reflect.TypeOf(was) != reflect.TypeOf(value) {
			return nil, false
		}
		return o.replace(was, value)
	}
}

// replace returns wanted and records the path if it differs from was. ok is false if the library
// might see them as equal.
func (o *overlay) replace(was, wanted any) (any, bool) {
	if tree.Same(was, wanted) {
		return was, true
	}
	if tree.Differ(was, wanted) { // otherwise they may be equal to the library
		o.paths = append(o.paths, slices.Clone(o.path))
		return wanted, true
	}
	return nil, false
}

// conflicts reports whether other managers own fields in c.set.
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
