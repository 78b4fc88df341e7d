package crd

import (
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/spec3"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// models makes the field managers of a kind. The type models of all versions are built when the first one is asked for.
type models struct {
	*compiled
	types    func() (managedfields.TypeConverter, error)
	mu       sync.Mutex
	managers map[managerKey]*managedfields.FieldManager
}

type managerKey struct{ version, subresource string }

func newModels(c *compiled) *models {
	m := &models{compiled: c, managers: map[managerKey]*managedfields.FieldManager{}}
	m.types = sync.OnceValues(m.newTypes)
	return m
}

func (m *models) newTypes() (managedfields.TypeConverter, error) {
	var specs []*spec3.OpenAPI
	for i := range m.definition.Spec.Versions {
		// What the builder says of metadata comes with every version.
		s, err := builder.BuildOpenAPIV3(m.definition, m.definition.Spec.Versions[i].Name, builder.Options{})
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", m.name, err)
		}
		specs = append(specs, s)
	}
	merged, err := builder.MergeSpecsV3(specs...)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.name, err)
	}
	return managedfields.NewTypeConverter(merged.Components.Schemas, m.preserves())
}

// manager tracks managedFields of writes in a version.
func (m *models) manager(version, subresource string) (*managedfields.FieldManager, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := managerKey{version, subresource}
	if made, ok := m.managers[key]; ok {
		return made, nil
	}
	types, err := m.types()
	if err != nil {
		return nil, err
	}
	reset := (&strategy{compiled: m.compiled, status: subresource == "status"}).GetResetFields()
	if subresource == "scale" {
		reset = nil
	}
	c := (&codec{m.compiled}).Interfaces()
	made, err := managedfields.NewDefaultCRDFieldManager(types, c.Convertor, c.Defaulter, c.Creater, m.gvk(version),
		schema.GroupVersion{Group: m.group, Version: m.storage}, subresource, fieldpath.NewExcludeFilterSetMap(reset))
	if err != nil {
		return nil, fmt.Errorf("track fields of %s: %w", m.name, err)
	}
	m.managers[key] = made
	return made, nil
}
