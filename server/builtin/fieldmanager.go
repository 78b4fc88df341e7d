package builtin

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// fieldManagers makes and keeps the field managers of one kind.
type fieldManagers struct {
	scheme *runtime.Scheme
	kind   schema.GroupKind
	hub    schema.GroupVersion
	// reset gives the fields that writes to the resource ("") or a subresource leave alone.
	reset map[string]any

	made sync.Map // managerKey → *managedfields.FieldManager
}

type managerKey struct{ version, subresource string }

func (m *fieldManagers) get(version, subresource string) (*managedfields.FieldManager, error) {
	key := managerKey{version, subresource}
	if fm, ok := m.made.Load(key); ok {
		return fm.(*managedfields.FieldManager), nil
	}
	kind := m.kind.WithVersion(version)
	fm, err := managedfields.NewDefaultFieldManager(sharedSchemas(), m.scheme, m.scheme, m.scheme, kind, m.hub, subresource, resetFilters(m.reset[subresource]))
	if err != nil {
		return nil, fmt.Errorf("make field manager of %s: %w", kind, err)
	}
	made, _ := m.made.LoadOrStore(key, fm)
	return made.(*managedfields.FieldManager), nil
}

// resetFilters asks a strategy which fields it resets.
func resetFilters(strategy any) map[fieldpath.APIVersion]fieldpath.Filter {
	switch s := strategy.(type) {
	case upstream.ResetFieldsFilterStrategy:
		return s.GetResetFieldsFilter()
	case upstream.ResetFieldsStrategy:
		return fieldpath.NewExcludeFilterSetMap(s.GetResetFields())
	}
	return nil
}
