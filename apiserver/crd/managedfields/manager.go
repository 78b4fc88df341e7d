package managedfields

import (
	"maps"
	"time"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"kelson.dev/apiserver/resource"
	"kelson.dev/operator/tree"
)

// Library is Kubernetes' own field manager, as far as it is used.
type Library interface {
	UpdateNoErrors(live, next runtime.Object, by string) runtime.Object
	Apply(live, config runtime.Object, by string, force bool) (runtime.Object, error)
}

// Config is what a Manager is made of.
type Config struct {
	Library     Library
	Types       managedfields.TypeConverter
	Cache       *Cache // shared by all managers of a kind
	Kind        schema.GroupVersionKind
	Subresource string
	// Reset are the top-level fields that a write can't set and so nobody gets.
	Reset []string
	// Schema is that of the version; nil if it has none.
	Schema *structuralschema.Structural
	// Default applies the version's defaults to an object.
	Default func(*unstructured.Unstructured)
}

// Manager tracks the managedFields of objects in one version, for writes of an object or one of its subresources. It may be used by
// several goroutines at once.
type Manager struct {
	Config
	cache   *Cache
	version string
	filter  fieldpath.Filter // nil: nothing is reset
	shape   *shape
}

// New makes a manager.
func New(c Config) *Manager {
	m := &Manager{Config: c, cache: c.Cache, version: c.Kind.GroupVersion().String(), shape: shapeOf(c.Schema)}
	if len(c.Reset) > 0 {
		reset := fieldpath.NewSet()
		for _, name := range c.Reset {
			reset.Insert(fieldpath.MakePathOrDie(name))
		}
		m.filter = fieldpath.NewExcludeSetFilter(reset)
	}
	return m
}

// unowned are the fields that are nobody's: what the server sets, and what says which object it is.
var unowned = func() *fieldpath.Set {
	set := fieldpath.NewSet(fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"), fieldpath.MakePathOrDie("metadata"))
	for name := range identifying {
		set.Insert(fieldpath.MakePathOrDie("metadata", name))
	}
	return set
}()

// identifying are those of them in metadata.
var identifying = map[string]bool{
	"name": true, "namespace": true, "creationTimestamp": true, "selfLink": true, "uid": true, "clusterName": true, "generation": true,
	"managedFields": true, "resourceVersion": true,
}

// mostUpdaters is how many managers an object has that did not apply; beyond that the library puts the oldest together.
const mostUpdaters = 10

// UpdateNoErrors brings the managedFields of a new state up to date, which becomes the caller's: by has set what is not as in live. Where that
// can't be told, next keeps the managers of live.
func (m *Manager) UpdateNoErrors(live, next runtime.Object, by string) runtime.Object {
	l, isCustom := live.(*unstructured.Unstructured)
	n, isToo := next.(*unstructured.Unstructured)
	if isCustom && isToo && m.update(l, n, by) {
		return n
	}
	return m.Library.UpdateNoErrors(live, next, by)
}

// update is false where it is for the library to say; then it has changed nothing.
func (m *Manager) update(live, next *unstructured.Unstructured, by string) bool {
	if !m.mine(live) || !m.mine(next) {
		return false
	}
	before, isSet := listOf(live)
	if given, ok := listOf(next); ok && m.Subresource == "" && (!isSet || !tree.Same(given, before)) {
		return false // the client changes managedFields themselves
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
		if live.GetUID() != "" { // whose fields are not tracked
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

// mine says whether an object is of the manager's kind and version.
func (m *Manager) mine(u *unstructured.Unstructured) bool {
	version, _ := u.Object["apiVersion"].(string)
	kind, _ := u.Object["kind"].(string)
	return version == m.version && kind == m.Kind.Kind
}

// change is what is not as it was.
type change struct {
	set, removed *fieldpath.Set // nil if there is nothing
	live         *typed.TypedValue
}

// compare says how next differs from live in what can be somebody's.
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

// bare is an object without its managedFields; it shares the rest.
func bare(u *unstructured.Unstructured) *unstructured.Unstructured {
	if _, ok := listOf(u); !ok {
		return u
	}
	content := shallow(u.Object)
	delete(content["metadata"].(map[string]any), "managedFields")
	return &unstructured.Unstructured{Object: content}
}

// shallow is an object that has maps of its own at the top and for metadata, and shares the rest.
func shallow(object map[string]any) map[string]any {
	out := maps.Clone(object)
	if metadata, ok := object["metadata"].(map[string]any); ok {
		out["metadata"] = maps.Clone(metadata)
	}
	return out
}

// taken gives the managers after somebody has taken what changed, and what was removed is nobody's any more.
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

// lost takes from the managers what somebody else has set, and what was removed. Of what self has, only the latter is taken: what it sets again stays its own.
func (m *Manager) lost(managers entries, c *change, self identity) (entries, bool) {
	out := make(entries, 0, len(managers)+1)
	for _, e := range managers {
		if !m.settled(e.fields, c) {
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

// settled says that a set fits the schema, and has nothing that is nobody's.
func (m *Manager) settled(f *fields, c *change) bool {
	if f.isSettled(m.version) {
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
	return f.settle(m.version, c.live)
}

// contains says whether all of b is in a.
func contains(a, b *fieldpath.Set) bool { return b.Difference(a).Empty() }

func now() string { return time.Now().UTC().Format(time.RFC3339) }
