package managedfields

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"kelson.dev/apiserver/fastpath/fieldset"
	"kelson.dev/apiserver/fastpath/shape"
	"kelson.dev/apiserver/resource"
	"kelson.dev/operator/tree"
)

// Library is the part of Kubernetes' own field manager that a Manager uses.
type Library interface {
	UpdateNoErrors(live, next runtime.Object, by string) runtime.Object
	Apply(live, config runtime.Object, by string, force bool) (runtime.Object, error)
}

// Config configures a Manager. All fields but Subresource, Reset and Shape are required.
type Config struct {
	Library Library
	Types   managedfields.TypeConverter
	// Cache is shared by all Managers of a kind.
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

// Manager tracks the managedFields of objects in one version, for writes of an object or of one of
// its subresources. It is safe for concurrent use.
type Manager struct {
	Config
	cache   *Cache
	version string
	filter  fieldpath.Filter // nil if Reset is empty
}

// New returns a Manager.
func New(c Config) *Manager {
	m := &Manager{Config: c, cache: c.Cache, version: c.Kind.GroupVersion().String()}
	if len(c.Reset) > 0 {
		reset := fieldpath.NewSet()
		for _, name := range c.Reset {
			reset.Insert(fieldpath.MakePathOrDie(name))
		}
		m.filter = fieldpath.NewExcludeSetFilter(reset)
	}
	return m
}

// unowned are the fields that no manager owns. It must not be changed.
var unowned = fieldset.Unowned()

// mostUpdaters is the number of Update managers up to which the library keeps each manager apart.
// It merges the oldest beyond that.
const mostUpdaters = 10

// UpdateNoErrors returns next with updated managedFields: the manager by owns every field that
// differs from live. It may change and return next. If the library cannot compute the difference,
// next keeps the managers of live.
func (m *Manager) UpdateNoErrors(live, next runtime.Object, by string) runtime.Object {
	l, isCustom := live.(*unstructured.Unstructured)
	n, isToo := next.(*unstructured.Unstructured)
	if isCustom && isToo && m.update(l, n, by) {
		return n
	}
	return m.Library.UpdateNoErrors(live, next, by)
}

// update is the fast path of UpdateNoErrors. It returns false, without having changed anything, if
// the library must decide.
func (m *Manager) update(live, next *unstructured.Unstructured, by string) bool {
	if !m.matches(live) || !m.matches(next) {
		return false
	}
	before, isSet := listOf(live)
	if given, ok := listOf(next); ok && m.Subresource == "" && (!isSet || !tree.Same(given, before)) {
		return false // the client changes managedFields itself
	}
	managers, ok := m.read(live)
	if !ok {
		return false
	}
	if by == "" {
		by = "unknown"
	}
	self := identity{by, operationUpdate, m.Subresource}
	if len(managers) == 0 {
		if live.GetUID() != "" { // the fields of this object are not tracked
			return false
		}
		if f, ok := m.fresh(next.Object, false); ok {
			m.write(next, entries{{identity: self, fields: f, time: now()}})
			return true
		}
	}
	change, ok := m.compare(live, next)
	if !ok {
		return false
	}
	managers, ok = m.taken(managers, change, self)
	if !ok {
		return false
	}
	m.write(next, managers)
	return true
}

// matches reports whether an object has the manager's kind and version.
func (m *Manager) matches(u *unstructured.Unstructured) bool {
	version, _ := u.Object["apiVersion"].(string)
	kind, _ := u.Object["kind"].(string)
	return version == m.version && kind == m.Kind.Kind
}

// change is the difference between two states of an object.
type change struct {
	set, removed *fieldpath.Set // nil if empty
	live         *typed.TypedValue
}

// compare returns how next differs from live in the fields that managers can own. ok is false if
// only the library can tell.
func (m *Manager) compare(live, next *unstructured.Unstructured) (*change, bool) {
	if d, ok := m.plainly(live.Object, next.Object); ok && len(d.paths)+len(d.gone) <= resource.MaxTracked {
		return &change{set: m.filteredPaths(d.paths), removed: m.filteredPaths(d.gone)}, true
	}
	if resource.Wide(live) || resource.Wide(next) {
		return nil, false
	}
	was, err := m.Types.ObjectToTyped(bare(live), typed.AllowDuplicates)
	if err != nil {
		return nil, false
	}
	is, err := m.Types.ObjectToTyped(bare(next), typed.AllowDuplicates)
	if err != nil {
		return nil, false
	}
	compared, err := was.Compare(is)
	if err != nil {
		return nil, false
	}
	return &change{set: m.filtered(compared.Modified.Union(compared.Added)), removed: m.filtered(compared.Removed), live: was}, true
}

func (m *Manager) filtered(set *fieldpath.Set) *fieldpath.Set {
	if m.filter != nil {
		set = m.filter.Filter(set)
	}
	if set.Empty() {
		return nil
	}
	return set
}

func (m *Manager) filteredPaths(paths []fieldpath.Path) *fieldpath.Set {
	if len(paths) == 0 {
		return nil
	}
	return m.filtered(fieldpath.NewSet(paths...))
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

// taken returns the managers after self has set c.set and c.removed has been removed. ok is false
// if the library must decide.
func (m *Manager) taken(managers entries, c *change, self identity) (entries, bool) {
	managers, ok := m.lost(managers, c, self)
	if !ok {
		return nil, false
	}
	if c.set == nil {
		return managers, true
	}
	own := c.set.Difference(unowned)
	if own.Empty() {
		return managers, true
	}
	at := managers.find(self)
	if at < 0 {
		f, err := m.cache.ofSet(own)
		if err != nil {
			return nil, false
		}
		managers = append(managers, entry{identity: self, fields: f, time: now()})
		updaters := 0
		for _, e := range managers {
			if e.operation == operationUpdate {
				updaters++
			}
		}
		return managers, updaters <= mostUpdaters
	}
	e := &managers[at]
	had, err := e.fields.set()
	if err != nil {
		return nil, false
	}
	if !contains(had, own) {
		f, err := m.cache.ofSet(own.Union(had))
		if err != nil {
			return nil, false
		}
		e.fields = f
	}
	e.time, e.raw = now(), nil
	return managers, true
}

// lost returns the managers without the fields in c.removed and, except for self, without those in
// c.set: self keeps the fields that it sets again.
func (m *Manager) lost(managers entries, c *change, self identity) (entries, bool) {
	out := make(entries, 0, len(managers)+1)
	for _, e := range managers {
		if !m.reconciled(e.fields, c) {
			return nil, false
		}
		had, err := e.fields.set()
		if err != nil {
			return nil, false
		}
		has := had
		if c.set != nil && e.identity != self {
			if gone := has.Intersection(c.set); !gone.Empty() {
				has = has.Difference(gone)
			}
		}
		if c.removed != nil {
			if gone := has.Intersection(c.removed); !gone.Empty() {
				has = has.Difference(gone)
			}
		}
		if has != had {
			if has.Empty() {
				continue
			}
			if e.fields, err = m.cache.ofSet(has); err != nil {
				return nil, false
			}
			e.raw = nil
		}
		out = append(out, e)
	}
	return out, true
}

// reconciled reports whether a set fits the schema of the version and has no unowned fields.
func (m *Manager) reconciled(f *fields, c *change) bool {
	if f.isReconciled(m.version) {
		return true
	}
	if c.live == nil { // the schema comes with a value
		empty := &unstructured.Unstructured{}
		empty.SetGroupVersionKind(m.Kind)
		value, err := m.Types.ObjectToTyped(empty)
		if err != nil {
			return false
		}
		c.live = value
	}
	return f.reconcile(m.version, c.live)
}

// contains reports whether b is a subset of a.
func contains(a, b *fieldpath.Set) bool { return b.Difference(a).Empty() }

func now() string { return time.Now().UTC().Format(time.RFC3339) }
