package managedfields

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"kelson.dev/apiserver/fastpath/fieldset"
)

// again applies a configuration with exactly the fields that its manager applied before, if the
// object still has all of them. No field is removed then; only values change. ok is false
// otherwise, and if other managers own a field that changes.
func (m *Manager) again(live runtime.Object, config *unstructured.Unstructured, by string) (next runtime.Object, ok bool) {
	accessor, err := meta.Accessor(live)
	if err != nil || by == "" || by == "kubectl" || !m.names(config) {
		return nil, false
	}
	managers := accessor.GetManagedFields()
	self := slices.IndexFunc(managers, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == by && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == m.Subresource
	})
	if self < 0 || !m.orderly(managers) {
		return nil, false
	}
	w := newWriter()
	defer w.Free()
	if !w.Object(config.Object, m.Shape, fieldset.Options{Nulls: true, Reset: m.Reset}) || !bytes.Equal(managers[self].FieldsV1.GetRawBytes(), w.Raw) {
		return nil, false
	}
	w.Raw = w.Raw[:0]
	versioned, ok := m.toVersion(live)
	if !ok || !m.check().accepts(versioned) {
		return nil, false
	}
	o := overlay{writer: w}
	changed, ok := o.over(config.Object, versioned, m.Shape, m.Reset)
	if !ok || !m.left(managers, self, w.Raw) {
		return nil, false
	}
	next = live.DeepCopyObject()
	if !changed {
		return next, true
	}
	if versioned, ok = m.toVersion(next); !ok {
		return nil, false
	}
	w.Raw, o.set = w.Raw[:0], true
	if _, ok := o.over(config.Object, versioned, m.Shape, m.Reset); !ok {
		return nil, false
	}
	return m.applied(versioned, self)
}

// applied converts the result of an apply to a hub and sets the manager's time.
func (m *Manager) applied(versioned reflect.Value, self int) (hub runtime.Object, ok bool) {
	obj := versioned.Addr().Interface().(runtime.Object)
	m.Scheme.Default(obj)
	hub, err := m.Scheme.UnsafeConvertToVersion(obj, m.Hub)
	if err != nil {
		return nil, false
	}
	accessor, err := meta.Accessor(hub)
	if err != nil {
		return nil, false
	}
	managers := accessor.GetManagedFields()
	managers[self].Time = &metav1.Time{Time: time.Now().UTC()}
	slices.SortStableFunc(managers, inOrder)
	accessor.SetManagedFields(managers)
	return hub, true
}

// toVersion converts an object to the manager's version. The result may share memory with the
// object.
func (m *Manager) toVersion(hub runtime.Object) (reflect.Value, bool) {
	versioned, err := m.Scheme.UnsafeConvertToVersion(hub, m.Kind.GroupVersion())
	if err != nil {
		return reflect.Value{}, false
	}
	v := reflect.ValueOf(versioned)
	if v.Kind() != reflect.Pointer || v.Type().Elem() != m.empty.Type() {
		return reflect.Value{}, false
	}
	return v.Elem(), true
}

// names reports whether a configuration has the manager's kind and version.
func (m *Manager) names(config *unstructured.Unstructured) bool {
	return config.Object["apiVersion"] == m.version && config.Object["kind"] == m.Kind.Kind
}

// inOrder compares two managers in the order in which objects have them.
func inOrder(a, b metav1.ManagedFieldsEntry) int {
	return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(seconds(a.Time), seconds(b.Time)), cmp.Compare(a.Manager, b.Manager),
		cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Subresource, b.Subresource))
}

func seconds(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}

// orderly reports whether all managers have the form and order that this server writes, and wrote
// in the manager's version.
func (m *Manager) orderly(managers []metav1.ManagedFieldsEntry) bool {
	for i, e := range managers {
		if e.APIVersion != m.version || e.FieldsType != "FieldsV1" || e.FieldsV1 == nil || e.Manager == "" || !fieldset.Plain(e.Manager) || !fieldset.Plain(e.Subresource) ||
			e.Operation != metav1.ManagedFieldsOperationApply && e.Operation != metav1.ManagedFieldsOperationUpdate || i > 0 && inOrder(managers[i-1], e) > 0 {
			return false
		}
		for _, other := range managers[:i] {
			if e.Manager == other.Manager && e.Operation == other.Operation && e.Subresource == other.Subresource {
				return false
			}
		}
	}
	return true
}

// left reports whether all other managers keep their fields after a change.
func (m *Manager) left(managers []metav1.ManagedFieldsEntry, self int, changed []byte) bool {
	var change *fieldpath.Set
	for i, e := range managers {
		if i == self {
			continue
		}
		set, ok := m.known.of(e.FieldsV1.GetRawBytes(), m.settled)
		if !ok {
			return false
		}
		if len(changed) == 0 {
			continue
		}
		if change == nil {
			change = &fieldpath.Set{}
			if err := change.FromJSON(bytes.NewReader(changed)); err != nil {
				return false
			}
		}
		if !set.Intersection(change).Empty() {
			return false
		}
	}
	return true
}

// settled reports whether a set has the library's encoding and fits the schema, so that the library
// would not rewrite it.
func (m *Manager) settled(set *fieldpath.Set, raw []byte) bool {
	if set.Empty() {
		return false
	}
	again, err := set.ToJSON()
	if err != nil || !bytes.Equal(again, raw) {
		return false
	}
	schema, err := m.Types.ObjectToTyped(&unstructured.Unstructured{Object: map[string]any{"apiVersion": m.version, "kind": m.Kind.Kind}})
	if err != nil {
		return false
	}
	changed, err := typed.ReconcileFieldSetWithSchema(set, schema)
	return err == nil && changed == nil
}

// sets caches the field sets of other managers by their encoding. Objects of a kind mostly have the
// same few. The zero value is ready for use.
type sets struct {
	mu  sync.RWMutex
	all map[string]*fieldpath.Set // nil if the set is not settled
}

const (
	// mostSets is the number of sets in the cache. A full cache is emptied.
	mostSets = 256
	// longestSet is the size, in bytes of its encoding, of the largest set in the cache.
	longestSet = 16 << 10
)

func (s *sets) of(raw []byte, settled func(set *fieldpath.Set, raw []byte) bool) (*fieldpath.Set, bool) {
	s.mu.RLock()
	set, ok := s.all[string(raw)]
	s.mu.RUnlock()
	if ok {
		return set, set != nil
	}
	set = &fieldpath.Set{}
	if err := set.FromJSON(bytes.NewReader(raw)); err != nil || !settled(set, raw) {
		set = nil
	}
	if len(raw) <= longestSet {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.all == nil || len(s.all) >= mostSets {
			s.all = map[string]*fieldpath.Set{}
		}
		s.all[string(raw)] = set
	}
	return set, set != nil
}
