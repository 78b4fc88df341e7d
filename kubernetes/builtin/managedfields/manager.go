package managedfields

import (
	"bytes"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"kelson.dev/apiserver/resource"
)

// Config is what a Manager is made of.
type Config struct {
	Library     resource.FieldManager
	Types       managedfields.TypeConverter
	Scheme      *runtime.Scheme
	Kind        schema.GroupVersionKind
	Hub         schema.GroupVersion
	Subresource string
	// Shape is that of the version.
	Shape *Shape
	// Reset are the top-level fields that a write can't set and so nobody gets.
	Reset []string
}

// Manager tracks the managedFields of objects in one version, for writes of an object or one of its subresources. It may be used by
// several goroutines at once.
type Manager struct {
	Config
	version string
	empty   reflect.Value // of the version's type
	known   sets
}

var _ resource.FieldManager = (*Manager)(nil)

// New makes a manager.
func New(c Config) (*Manager, error) {
	obj, err := c.Scheme.New(c.Kind)
	if err != nil {
		return nil, err
	}
	return &Manager{Config: c, version: c.Kind.GroupVersion().String(), empty: reflect.ValueOf(obj).Elem()}, nil
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
	if c, ok := config.(*unstructured.Unstructured); ok && plain(by) {
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

// isEmpty says whether an object is of the version's type, as no stored one is, and has nothing in it.
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

// created notes that all that is in a new object was set by one.
func (m *Manager) created(hub runtime.Object, by string) bool {
	accessor, err := meta.Accessor(hub)
	if err != nil || accessor.GetManagedFields() != nil || m.Subresource != "" || !plain(by) {
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
	defer w.free()
	if !w.created(m.empty, versioned, m.Shape, m.Reset) {
		return false
	}
	accessor.SetManagedFields(m.entries(by, metav1.ManagedFieldsOperationUpdate, w.raw))
	return true
}

// made gives the object that a configuration makes where there is none.
func (m *Manager) made(config *unstructured.Unstructured, by string) (hub runtime.Object, ok bool) {
	if by == "" || by == "kubectl" || m.Subresource != "" || !m.names(config) {
		return nil, false
	}
	w := newWriter()
	defer w.free()
	if !w.configuration(config.Object, m.Shape, m.Reset) {
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
	accessor.SetManagedFields(m.entries(by, metav1.ManagedFieldsOperationApply, w.raw))
	return hub, true
}

// entries are the managers of an object that one has made.
func (m *Manager) entries(by string, operation metav1.ManagedFieldsOperationType, raw []byte) []metav1.ManagedFieldsEntry {
	set := &metav1.FieldsV1{}
	set.SetRawBytes(bytes.Clone(raw))
	return []metav1.ManagedFieldsEntry{{
		Manager: by, Operation: operation, APIVersion: m.version, Time: &metav1.Time{Time: time.Now().UTC()},
		FieldsType: "FieldsV1", FieldsV1: set, Subresource: m.Subresource,
	}}
}
