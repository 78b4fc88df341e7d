package builtin

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	fastfields "kelson.dev/apiserver/fastpath/managedfields"
	"kelson.dev/apiserver/resource"
)

// fieldManagers creates and caches the field managers of one kind.
type fieldManagers struct {
	scheme *runtime.Scheme
	kind   schema.GroupKind
	hub    schema.GroupVersion
	// reset has the strategy of the resource ("") and of each subresource. Strategies list the
	// fields that their writes reset.
	reset map[string]any
	// noFastPaths is Config.NoFastPaths.
	noFastPaths bool

	fields fastfields.Cache // of the field sets of all versions

	cached sync.Map // managerKey → resource.FieldManager
}

type managerKey struct{ version, subresource string }

func (m *fieldManagers) get(version, subresource string) (resource.FieldManager, error) {
	key := managerKey{version, subresource}
	if fm, ok := m.cached.Load(key); ok {
		return fm.(resource.FieldManager), nil
	}
	fm, err := m.make(m.kind.WithVersion(version), subresource)
	if err != nil {
		return nil, fmt.Errorf("make field manager of %s: %w", m.kind.WithVersion(version), err)
	}
	loaded, _ := m.cached.LoadOrStore(key, fm)
	return loaded.(resource.FieldManager), nil
}

func (m *fieldManagers) make(kind schema.GroupVersionKind, subresource string) (resource.FieldManager, error) {
	library, err := managedfields.NewDefaultFieldManager(sharedSchemas(), m.scheme, m.scheme, m.scheme, kind, m.hub,
		subresource, resetFilters(m.reset[subresource]))
	if err != nil {
		return nil, err
	}
	if m.noFastPaths {
		return resource.Tracked{FieldManager: library}, nil
	}
	shape, err := sharedSchemas().shape(kind)
	if err != nil {
		return nil, err
	}
	if shape == nil {
		return resource.Tracked{FieldManager: library}, nil
	}
	var filter fieldpath.Filter
	reset, ok := resetNames(m.reset[subresource], kind.GroupVersion())
	if !ok {
		filter = resetFilters(m.reset[subresource])[fieldpath.APIVersion(kind.GroupVersion().String())]
	}
	return fastfields.NewStructManager(fastfields.StructConfig{
		Library: resource.Tracked{FieldManager: library}, Types: sharedSchemas(), Cache: &m.fields, Scheme: m.scheme,
		Kind: kind, Hub: m.hub, Subresource: subresource, Shape: shape,
		Reset: reset, Filter: filter,
	})
}

// ownersOfBody returns the field manager of the bodies of a subresource, whose kind is not stored.
func ownersOfBody(kind schema.GroupVersionKind, subresource string) func() (resource.FieldManager, error) {
	return ownersOf(kind, schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal}, subresource)
}

// ownersOf is like ownersOfBody, for objects in the version hub.
func ownersOf(kind schema.GroupVersionKind, hub schema.GroupVersion,
	subresource string) func() (resource.FieldManager, error) {
	return sync.OnceValues(func() (resource.FieldManager, error) {
		m := &fieldManagers{scheme: Scheme(), kind: kind.GroupKind(), hub: hub}
		return m.get(kind.Version, subresource)
	})
}

// resetFilters returns filters for the fields that a strategy resets.
func resetFilters(strategy any) map[fieldpath.APIVersion]fieldpath.Filter {
	switch s := strategy.(type) {
	case upstream.ResetFieldsFilterStrategy:
		return s.GetResetFieldsFilter()
	case upstream.ResetFieldsStrategy:
		return fieldpath.NewExcludeFilterSetMap(s.GetResetFields())
	}
	return nil
}

// resetNames returns the top-level fields that a strategy resets in a version. ok is false if it
// also resets nested fields or metadata.
func resetNames(strategy any, version schema.GroupVersion) (names []string, ok bool) {
	s, resets := strategy.(upstream.ResetFieldsStrategy)
	if _, filters := strategy.(upstream.ResetFieldsFilterStrategy); filters || !resets {
		return nil, !filters
	}
	return fastfields.ResetNames(s.GetResetFields()[fieldpath.APIVersion(version.String())])
}
