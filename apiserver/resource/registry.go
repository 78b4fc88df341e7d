package resource

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Registry holds the set of kinds that a control plane serves. Reads take no lock and see one
// consistent set.
type Registry struct {
	mu  sync.Mutex // serialises writers
	set atomic.Pointer[Set]
}

// Set is one immutable state of a Registry.
type Set struct {
	// Generation grows by one with every change.
	Generation uint64

	byName  map[schema.GroupResource]*Resource
	byKind  map[schema.GroupKind]*Resource
	ordered []*Resource // by group, then plural
	retired map[schema.GroupResource]chan struct{}
}

// NewRegistry returns a registry of the given kinds.
func NewRegistry(resources ...*Resource) *Registry {
	r := &Registry{}
	r.set.Store(&Set{})
	r.Put(resources...)
	return r
}

// Current returns the current set, which is immutable.
func (r *Registry) Current() *Set { return r.set.Load() }

// Put adds resources and replaces those with the same group and plural name.
func (r *Registry) Put(resources ...*Resource) {
	r.change(func(byName map[schema.GroupResource]*Resource) {
		for _, res := range resources {
			byName[res.GroupResource()] = res
		}
	})
}

// Remove removes resources. It ignores unknown names.
func (r *Registry) Remove(names ...schema.GroupResource) {
	r.change(func(byName map[schema.GroupResource]*Resource) {
		for _, name := range names {
			delete(byName, name)
		}
	})
}

func (r *Registry) change(edit func(map[schema.GroupResource]*Resource)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.set.Load()
	next := &Set{
		Generation: old.Generation + 1,
		byName:     make(map[schema.GroupResource]*Resource, len(old.byName)+1),
		byKind:     make(map[schema.GroupKind]*Resource, len(old.byName)+1),
		retired:    make(map[schema.GroupResource]chan struct{}, len(old.byName)+1),
	}
	for name, res := range old.byName {
		next.byName[name] = res
	}
	edit(next.byName)
	for name, res := range next.byName {
		if before := old.byName[name]; before != nil && before.Edition == res.Edition {
			next.retired[name] = old.retired[name]
		} else {
			next.retired[name] = make(chan struct{})
		}
		next.byKind[schema.GroupKind{Group: res.Group, Kind: res.Kind}] = res
		next.ordered = append(next.ordered, res)
	}
	slices.SortFunc(next.ordered, func(a, b *Resource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Plural, b.Plural))
	})
	r.set.Store(next)
	for name, retired := range old.retired {
		if next.retired[name] != retired {
			close(retired)
		}
	}
}

// ByName returns the resource with a group and plural name.
func (s *Set) ByName(name schema.GroupResource) (*Resource, bool) {
	res, ok := s.byName[name]
	return res, ok
}

// Retired returns a channel that is closed when the Registry no longer serves the resource with a
// name, or serves it in another Edition. It is nil if the set has no such resource.
func (s *Set) Retired(name schema.GroupResource) <-chan struct{} { return s.retired[name] }

// Serves reports whether a resource is served in a version and, unless subresource is "", has that
// subresource there.
func (s *Set) Serves(r schema.GroupVersionResource, subresource string) bool {
	res, ok := s.byName[r.GroupResource()]
	if !ok {
		return false
	}
	if _, ok := res.Serves(r.Version); !ok {
		return false
	}
	if in := res.In[r.Version]; in != nil {
		res = in
	}
	if subresource == "" {
		return true
	}
	_, ok = res.SubresourceIn(r.Version, subresource)
	return ok
}

// ByKind returns the resource with a group and kind.
func (s *Set) ByKind(kind schema.GroupKind) (*Resource, bool) {
	res, ok := s.byKind[kind]
	return res, ok
}

// ByPrefix returns the resource with the Resource part of a store key.
func (s *Set) ByPrefix(prefix string) (*Resource, bool) {
	return s.ByName(schema.ParseGroupResource(prefix))
}

// All returns every resource, by group, then plural name. The slice must not be changed.
func (s *Set) All() []*Resource { return s.ordered }
