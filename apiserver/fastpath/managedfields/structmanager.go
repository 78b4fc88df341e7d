package managedfields

import (
	"bytes"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"kelson.dev/apiserver/fastpath/fieldset"
	"kelson.dev/apiserver/fastpath/shape"
	"kelson.dev/apiserver/resource"
)

// StructConfig configures a StructManager. All fields but Subresource, Reset and Filter are
// required.
type StructConfig struct {
	// Library is Kubernetes' own field manager.
	Library resource.FieldManager
	Types   managedfields.TypeConverter
	// Cache is shared by all StructManagers of a kind.
	Cache       *Cache
	Scheme      *runtime.Scheme
	Kind        schema.GroupVersionKind
	Hub         schema.GroupVersion
	Subresource string
	// Shape is the shape of the version's type.
	Shape *shape.Shape
	// Reset lists the top-level fields that a write cannot set. No manager owns them.
	Reset []string
	// Filter omits the fields that a write cannot set, where they are not whole top-level
	// fields. The library then handles creates and applies. nil means that Reset has all fields.
	Filter fieldpath.Filter
}

// ResetNames returns the top-level fields in a set of fields that writes reset. ok is false if the
// set has other fields or metadata, which only the library supports.
func ResetNames(reset *fieldpath.Set) (names []string, ok bool) {
	ok = true
	if reset == nil {
		return nil, ok
	}
	reset.Iterate(func(path fieldpath.Path) {
		if ok = ok && len(path) == 1 && path[0].FieldName != nil && *path[0].FieldName != "metadata"; ok {
			names = append(names, *path[0].FieldName)
		}
	})
	if !ok {
		return nil, false
	}
	return names, true
}

// StructManager tracks the managedFields of objects that are Go structs, in one version, for writes
// of an object or of one of its subresources. It is safe for concurrent use.
type StructManager struct {
	StructConfig
	rules
	empty reflect.Value // zero value of the version's type
	// check finds objects that the library refuses to merge.
	check func() *check
}

var _ resource.FieldManager = (*StructManager)(nil)

// NewStructManager returns a StructManager. It returns an error if Scheme has no type for Kind.
func NewStructManager(c StructConfig) (*StructManager, error) {
	obj, err := c.Scheme.New(c.Kind)
	if err != nil {
		return nil, err
	}
	m := &StructManager{StructConfig: c, empty: reflect.ValueOf(obj).Elem(), rules: rules{
		cache: c.Cache, types: c.Types, kind: c.Kind, version: c.Kind.GroupVersion().String(),
		subresource: c.Subresource,
	}}
	m.check = sync.OnceValue(func() *check { return newObjectCheck(m.empty.Type(), m.Shape) })
	return m, nil
}

// UpdateNoErrors implements [resource.FieldManager].
func (m *StructManager) UpdateNoErrors(live, next runtime.Object, by string) runtime.Object {
	if m.isEmpty(live) {
		if m.Filter == nil && m.create(next, by) {
			return next
		}
	} else if m.update(live, next, by) {
		return next
	}
	return m.Library.UpdateNoErrors(live, next, by)
}

// Apply implements [resource.FieldManager].
func (m *StructManager) Apply(live, config runtime.Object, by string, force bool) (runtime.Object, error) {
	if c, ok := config.(*unstructured.Unstructured); ok && m.Filter == nil && by != "" && fieldset.Plain(by) &&
		m.matches(c) {
		if m.isEmpty(live) {
			if next, ok := m.applyNew(c, by); ok {
				return next, nil
			}
		} else if next, ok := m.apply(live, c, by, force); ok {
			return next, nil
		}
	}
	return m.Library.Apply(live, config, by, force)
}

// matches reports whether a configuration has the manager's kind and version.
func (m *StructManager) matches(config *unstructured.Unstructured) bool {
	return config.Object["apiVersion"] == m.version && config.Object["kind"] == m.kind.Kind
}

// isEmpty reports whether an object has the version's type, which stored objects never have, and no
// content.
func (m *StructManager) isEmpty(obj runtime.Object) bool {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Type().Elem() != m.empty.Type() {
		return false
	}
	v = v.Elem()
	for i := range v.NumField() {
		if _, ok := v.Field(i).Addr().Interface().(*metav1.TypeMeta); !ok && !v.Field(i).IsZero() {
			return false
		}
	}
	return true
}

// create records that the manager named by owns all fields of a new object. It returns false if
// only the library can.
func (m *StructManager) create(hub runtime.Object, by string) bool {
	accessor, err := meta.Accessor(hub)
	if err != nil || accessor.GetManagedFields() != nil || m.subresource != "" || !fieldset.Plain(by) {
		return false
	}
	if by == "" {
		by = "unknown"
	}
	versioned, ok := m.toVersion(hub)
	if !ok {
		return false
	}
	w := newStructWriter()
	defer w.Free()
	if !w.created(m.empty, versioned, m.Shape, m.Reset) {
		return false
	}
	accessor.SetManagedFields(m.only(by, metav1.ManagedFieldsOperationUpdate, w.Raw))
	return true
}

// applyNew returns the object that a configuration creates. ok is false if only the library can.
func (m *StructManager) applyNew(config *unstructured.Unstructured, by string) (hub runtime.Object, ok bool) {
	if m.subresource != "" || updatesLastApplied(by, config, config) {
		return nil, false
	}
	w := fieldset.NewWriter()
	defer w.Free()
	if !w.Object(config.Object, m.Shape, fieldset.Options{Nulls: true, Reset: m.Reset}) {
		return nil, false
	}
	v := reflect.New(m.empty.Type())
	versioned := v.Interface().(runtime.Object)
	if !fill(config.Object, v.Elem(), value.TypeReflectEntryOf(m.empty.Type())) {
		return nil, false
	}
	versioned.GetObjectKind().SetGroupVersionKind(m.kind)
	hub, accessor, ok := m.toHub(versioned)
	if ok {
		accessor.SetManagedFields(m.only(by, metav1.ManagedFieldsOperationApply, w.Raw))
	}
	return hub, ok
}

// only returns the managedFields of an object with a single manager, whose encoded field set is
// raw.
func (m *StructManager) only(by string, operation metav1.ManagedFieldsOperationType,
	raw []byte) []metav1.ManagedFieldsEntry {
	set := &metav1.FieldsV1{}
	set.SetRawBytes(bytes.Clone(raw))
	return []metav1.ManagedFieldsEntry{{
		Manager: by, Operation: operation, APIVersion: m.version, Time: &metav1.Time{Time: time.Now().UTC()},
		FieldsType: "FieldsV1", FieldsV1: set, Subresource: m.subresource,
	}}
}

// toVersion converts an object to the manager's version. The result may share memory with the
// object.
func (m *StructManager) toVersion(hub runtime.Object) (reflect.Value, bool) {
	versioned, err := m.Scheme.UnsafeConvertToVersion(hub, m.kind.GroupVersion())
	if err != nil {
		return reflect.Value{}, false
	}
	v := reflect.ValueOf(versioned)
	if v.Kind() != reflect.Pointer || v.Type().Elem() != m.empty.Type() {
		return reflect.Value{}, false
	}
	return v.Elem(), true
}

// toHub converts an object of the manager's version, with its defaults, to a hub.
func (m *StructManager) toHub(versioned runtime.Object) (hub runtime.Object, accessor metav1.Object, ok bool) {
	m.Scheme.Default(versioned)
	hub, err := m.Scheme.UnsafeConvertToVersion(versioned, m.Hub)
	if err != nil {
		return nil, nil, false
	}
	accessor, err = meta.Accessor(hub)
	return hub, accessor, err == nil
}
