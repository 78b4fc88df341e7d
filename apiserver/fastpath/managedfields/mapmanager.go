package managedfields

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"kelson.dev/apiserver/fastpath/fieldset"
	"kelson.dev/apiserver/fastpath/shape"
	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/tree"
)

// MapConfig configures a MapManager. All fields but Subresource, Reset and Shape are required.
type MapConfig struct {
	// Library is Kubernetes' own field manager.
	Library resource.FieldManager
	Types   managedfields.TypeConverter
	// Cache is shared by all MapManagers of a kind.
	Cache       *Cache
	Kind        schema.GroupVersionKind
	Subresource string
	// Reset lists the top-level fields that a write cannot set. No manager owns them.
	Reset []string
	// Shape is the shape of the version's schema; nil if only the library understands the schema.
	Shape *shape.Shape
	// Default applies the version's defaults to an object.
	Default func(*unstructured.Unstructured)
}

// MapManager tracks the managedFields of custom objects in one version, for writes of an object or
// of one of its subresources. It is safe for concurrent use. An apply to an object of 1 KB takes it
// 25 µs; the library takes 580 µs.
type MapManager struct {
	MapConfig
	rules
	filter fieldpath.Filter // nil if Reset is empty
}

var _ resource.FieldManager = (*MapManager)(nil)

// NewMapManager returns a MapManager.
func NewMapManager(c MapConfig) *MapManager {
	m := &MapManager{MapConfig: c, rules: rules{
		cache: c.Cache, types: c.Types, kind: c.Kind, version: c.Kind.GroupVersion().String(),
		subresource: c.Subresource, trees: true,
	}}
	if len(c.Reset) > 0 {
		reset := fieldpath.NewSet()
		for _, name := range c.Reset {
			reset.Insert(fieldpath.MakePathOrDie(name))
		}
		m.filter = fieldpath.NewExcludeSetFilter(reset)
	}
	return m
}

// UpdateNoErrors returns next with updated managedFields: the manager with the name in by owns
// every field that differs from live. It may change and return next. If the library cannot compute
// the difference, next keeps the managers of live.
func (m *MapManager) UpdateNoErrors(live, next runtime.Object, by string) runtime.Object {
	l, liveIsCustom := live.(*unstructured.Unstructured)
	n, nextIsCustom := next.(*unstructured.Unstructured)
	if liveIsCustom && nextIsCustom && m.update(l, n, by) {
		return n
	}
	return m.Library.UpdateNoErrors(live, next, by)
}

// update is the fast path of UpdateNoErrors. It returns false, without having changed anything, if
// the library must decide.
func (m *MapManager) update(live, next *unstructured.Unstructured, by string) bool {
	if !m.matches(live) || !m.matches(next) {
		return false
	}
	before, isSet := listOf(live)
	if given, ok := listOf(next); ok && m.subresource == "" && (!isSet || !tree.Same(given, before)) {
		return false // the client changes managedFields itself
	}
	entries, managers, ok := m.read(live)
	if !ok {
		return false
	}
	if by == "" {
		by = "unknown"
	}
	self := identity{by, operationUpdate, m.subresource}
	if len(managers) == 0 {
		if live.GetUID() != "" { // the fields of this object are not tracked
			return false
		}
		if f, ok := m.all(next.Object, false); ok {
			m.write(next, nil, owners{{identity: self, fields: f, time: now(), at: -1}})
			return true
		}
	}
	c, ok := m.compare(live, next)
	if !ok {
		return false
	}
	managers, ok = m.afterUpdate(managers, c, self)
	if !ok {
		return false
	}
	m.write(next, entries, managers)
	return true
}

// matches reports whether an object has the manager's kind and version.
func (m *MapManager) matches(u *unstructured.Unstructured) bool {
	version, _ := u.Object["apiVersion"].(string)
	kind, _ := u.Object["kind"].(string)
	return version == m.version && kind == m.kind.Kind
}

// compare returns how next differs from live in the fields that managers can own. ok is false if
// only the library can decide.
func (m *MapManager) compare(live, next *unstructured.Unstructured) (change, bool) {
	if d, ok := m.diff(live.Object, next.Object); ok && len(d.paths)+len(d.gone) <= resource.MaxTracked &&
		m.accepts(live.Object) {
		return change{set: m.filteredPaths(d.paths), removed: m.filteredPaths(d.gone)}, true
	}
	if resource.Wide(live) || resource.Wide(next) {
		return change{}, false
	}
	was, err := m.Types.ObjectToTyped(bare(live), typed.AllowDuplicates)
	if err != nil {
		return change{}, false
	}
	is, err := m.Types.ObjectToTyped(bare(next), typed.AllowDuplicates)
	if err != nil {
		return change{}, false
	}
	compared, err := was.Compare(is)
	if err != nil {
		return change{}, false
	}
	return change{set: m.filtered(compared.Modified.Union(compared.Added)), removed: m.filtered(compared.Removed)}, true
}

func (m *MapManager) filtered(set *fieldpath.Set) *fieldpath.Set {
	if m.filter != nil {
		set = m.filter.Filter(set)
	}
	if set.Empty() {
		return nil
	}
	return set
}

func (m *MapManager) filteredPaths(paths []fieldpath.Path) *fieldpath.Set {
	if len(paths) == 0 {
		return nil
	}
	return m.filtered(fieldpath.NewSet(paths...))
}

// all returns the fields that the creator of an object owns or, if applied is true, those that the
// applier of a configuration owns. ok is false if the object has parts that only the library
// understands, or that violate the schema, for which the library has an error.
func (m *MapManager) all(object map[string]any, applied bool) (*fields, bool) {
	w := fieldset.NewWriter()
	defer w.Free()
	if !w.Object(object, m.Shape, fieldset.Options{Created: !applied, Reset: m.Reset}) {
		return nil, false
	}
	f, err := m.cache.read(w.Raw)
	return f, err == nil
}

// bare returns an object without its managedFields. It shares everything else with u.
func bare(u *unstructured.Unstructured) *unstructured.Unstructured {
	if _, ok := listOf(u); !ok {
		return u
	}
	content := shallow(u.Object)
	delete(content["metadata"].(map[string]any), "managedFields")
	return &unstructured.Unstructured{Object: content}
}

// shallow copies an object's top-level map and its metadata map. The copy shares everything else.
func shallow(object map[string]any) map[string]any {
	out := maps.Clone(object)
	if metadata, ok := object["metadata"].(map[string]any); ok {
		out["metadata"] = maps.Clone(metadata)
	}
	return out
}
