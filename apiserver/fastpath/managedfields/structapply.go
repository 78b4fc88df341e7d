package managedfields

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/apiserver/fastpath/fieldset"
)

// apply applies a configuration if only values change, and no field is added or removed: all its
// fields exist in the live object, and it has at least the fields of the manager's previous
// configuration. ok is false otherwise, and for errors.
func (m *StructManager) apply(live runtime.Object, config *unstructured.Unstructured, by string,
	force bool) (next runtime.Object, ok bool) {
	accessor, err := meta.Accessor(live)
	if err != nil || updatesLastApplied(by, accessor, config) {
		return nil, false
	}
	entries := accessor.GetManagedFields()
	managers, ok := m.read(entries)
	if !ok || len(managers) == 0 {
		return nil, false
	}
	w := fieldset.NewWriter()
	defer w.Free()
	if !w.Object(config.Object, m.Shape, fieldset.Options{Nulls: true, Reset: m.Reset}) {
		return nil, false
	}
	self, own := identity{by, operationApply, m.subresource}, m.cache.encoded(w.Raw)
	if !m.keeps(managers, self, own) {
		return nil, false
	}
	versioned, ok := m.toVersion(live)
	if !ok || !m.check().accepts(versioned) {
		return nil, false
	}
	w.Raw = w.Raw[:0]
	o := overlay[structValue, structValues]{Writer: w, reset: m.Reset}
	_, changed, ok := o.merge(config.Object, structValueOf(versioned), m.Shape)
	if !ok {
		return nil, false
	}
	c, ok := changeOf(w.Raw, managers, self)
	if !ok || !force && m.conflicts(managers, c, self) {
		return nil, false
	}
	if managers, ok = m.afterApply(managers, c, self, own, changed); !ok {
		return nil, false
	}
	next = live.DeepCopyObject()
	if accessor, err = meta.Accessor(next); err != nil {
		return nil, false
	}
	if changed {
		if versioned, ok = m.toVersion(next); !ok {
			return nil, false
		}
		w.Raw = w.Raw[:0]
		o.values.set = true
		if _, _, ok := o.merge(config.Object, structValueOf(versioned), m.Shape); !ok {
			return nil, false
		}
		if next, accessor, ok = m.toHub(versioned.Addr().Interface().(runtime.Object)); !ok {
			return nil, false
		}
	}
	m.write(accessor, managers)
	return next, true
}
