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
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"kelson.dev/apiserver/fastpath/fieldset"
	"kelson.dev/apiserver/fastpath/shape"
	"kelson.dev/apiserver/resource"
)

// Config configures a Manager. All fields but Subresource and Reset are required.
type Config struct {
	Library     resource.FieldManager
	Types       managedfields.TypeConverter
	Scheme      *runtime.Scheme
	Kind        schema.GroupVersionKind
	Hub         schema.GroupVersion
	Subresource string
	// Shape is the shape of the version's type.
	Shape *shape.Shape
	// Reset lists the top-level fields that a write cannot set. No manager owns them.
	Reset []string
}

// Manager tracks the managedFields of objects in one version, for writes of an object or of one of
// its subresources. It is safe for concurrent use.
type Manager struct {
	Config
	version string
	empty   reflect.Value // of the version's type
	known   sets
	// check finds objects that the library refuses to merge.
	check func() *check
}

var _ resource.FieldManager = (*Manager)(nil)

// New returns a Manager. It returns an error if Scheme has no type for Kind.
func New(c Config) (*Manager, error) {
	obj, err := c.Scheme.New(c.Kind)
	if err != nil {
		return nil, err
	}
	m := &Manager{Config: c, version: c.Kind.GroupVersion().String(), empty: reflect.ValueOf(obj).Elem()}
	m.check = sync.OnceValue(func() *check { return newObjectCheck(m.empty.Type(), m.Shape) })
	return m, nil
}

// UpdateNoErrors implements [resource.FieldManager].
func (m *Manager) UpdateNoErrors(live, next runtime.Object, by string) runtime.Object {
	if m.isEmpty(live) && m.created(next, by) {
		return next
	}
	return m.Library.UpdateNoErrors(live, next, by)
}

// Apply implements [resource.FieldManager].
func (m *Manager) Apply(live, config runtime.Object, by string, force bool) (runtime.Object, error) {
	if c, ok := config.(*unstructured.Unstructured); ok && fieldset.Plain(by) {
		if m.isEmpty(live) {
			if next, ok := m.made(c, by); ok {
				return next, nil
			}
		} else if next, ok := m.again(live, c, by); ok {
			return next, nil
		}
	}
	return m.Library.Apply(live, config, by, force)
}

// isEmpty reports whether an object has the version's type, which stored objects never have, and no
// content.
func (m *Manager) isEmpty(obj runtime.Object) bool {
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

// created records that the manager by owns all fields of a new object. It returns false if only the
// library can.
func (m *Manager) created(hub runtime.Object, by string) bool {
	accessor, err := meta.Accessor(hub)
	if err != nil || accessor.GetManagedFields() != nil || m.Subresource != "" || !fieldset.Plain(by) {
		return false
	}
	if by == "" {
		by = "unknown"
	}
	versioned, ok := m.toVersion(hub)
	if !ok {
		return false
	}
	w := newWriter()
	defer w.Free()
	if !w.created(m.empty, versioned, m.Shape, m.Reset) {
		return false
	}
	accessor.SetManagedFields(m.entries(by, metav1.ManagedFieldsOperationUpdate, w.Raw))
	return true
}

// made returns the object that a configuration creates. ok is false if only the library can.
func (m *Manager) made(config *unstructured.Unstructured, by string) (hub runtime.Object, ok bool) {
	if by == "" || by == "kubectl" || m.Subresource != "" || !m.names(config) {
		return nil, false
	}
	w := newWriter()
	defer w.Free()
	if !w.Object(config.Object, m.Shape, fieldset.Options{Nulls: true, Reset: m.Reset}) {
		return nil, false
	}
	v := reflect.New(m.empty.Type())
	versioned := v.Interface().(runtime.Object)
	if !fill(config.Object, v.Elem(), value.TypeReflectEntryOf(m.empty.Type())) {
		return nil, false
	}
	versioned.GetObjectKind().SetGroupVersionKind(m.Kind)
	m.Scheme.Default(versioned)
	hub, err := m.Scheme.UnsafeConvertToVersion(versioned, m.Hub)
	if err != nil {
		return nil, false
	}
	accessor, err := meta.Accessor(hub)
	if err != nil {
		return nil, false
	}
	accessor.SetManagedFields(m.entries(by, metav1.ManagedFieldsOperationApply, w.Raw))
	return hub, true
}

// entries returns the managedFields of an object with a single manager, whose encoded field set is
// raw.
func (m *Manager) entries(by string, operation metav1.ManagedFieldsOperationType, raw []byte) []metav1.ManagedFieldsEntry {
	set := &metav1.FieldsV1{}
	set.SetRawBytes(bytes.Clone(raw))
	return []metav1.ManagedFieldsEntry{{
		Manager: by, Operation: operation, APIVersion: m.version, Time: &metav1.Time{Time: time.Now().UTC()},
		FieldsType: "FieldsV1", FieldsV1: set, Subresource: m.Subresource,
	}}
}
