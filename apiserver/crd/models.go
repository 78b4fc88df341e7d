package crd

import (
	"fmt"
	"maps"
	"sync"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	generated "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	endpoints "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	fastfields "kelson.dev/apiserver/fastpath/managedfields"
	"kelson.dev/apiserver/resource"
)

// models creates the field managers of a kind. The first one builds the type models of all
// versions.
type models struct {
	*compiled
	types    func() (managedfields.TypeConverter, error)
	mu       sync.Mutex
	managers map[managerKey]resource.FieldManager
}

type managerKey struct{ version, subresource string }

func newModels(c *compiled) *models {
	m := &models{compiled: c, managers: map[managerKey]resource.FieldManager{}}
	m.types = sync.OnceValues(m.newTypes)
	return m
}

func (m *models) newTypes() (managedfields.TypeConverter, error) {
	shared, err := sharedMetadata()
	if err != nil {
		return nil, err
	}
	schemas := maps.Clone(shared)
	for name, v := range m.versions {
		s, err := v.structural()
		if err != nil {
			return nil, err
		}
		schemas[m.gvk(name).String()] = modelOf(s, m.gvk(name))
	}
	types, err := managedfields.NewTypeConverter(schemas, m.preserves())
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.name, err)
	}
	return types, nil
}

const objectMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// sharedMetadata returns the result of metadataModels, which all control planes share.
var sharedMetadata = sync.OnceValues(func() (map[string]*spec.Schema, error) { return metadataModels(sharedScheme()) })

// metadataModels returns the model of ObjectMeta.
func metadataModels(scheme *runtime.Scheme) (map[string]*spec.Schema, error) {
	models, err := builder3.BuildOpenAPIDefinitionsForResources(&common.OpenAPIV3Config{
		Info:              &spec.Info{},
		GetDefinitions:    generated.GetOpenAPIDefinitions,
		GetDefinitionName: endpoints.NewDefinitionNamer(scheme).GetDefinitionName,
	}, objectMeta)
	if err != nil {
		return nil, fmt.Errorf("model metadata: %w", err)
	}
	return models, nil
}

// modelOf returns the model of one version of a kind with the parts that managedFields need: the
// structure and the list types. The documents of /openapi contain it too, but cost ten times as
// much.
func modelOf(s *structuralschema.Structural, gvk schema.GroupVersionKind) *spec.Schema {
	model := &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}
	if s != nil {
		model = s.Unfold().ToKubeOpenAPI()
		addTypeMeta(model)
		addEmbedded(model)
	}
	model.AddExtension("x-kubernetes-group-version-kind", []any{
		map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind},
	})
	return model
}

// addTypeMeta adds apiVersion, kind and metadata to a schema.
func addTypeMeta(s *spec.Schema) {
	s.SetProperty("apiVersion", *spec.StringProperty())
	s.SetProperty("kind", *spec.StringProperty())
	s.SetProperty("metadata", *spec.RefSchema("#/components/schemas/" + objectMeta))
}

// addEmbedded calls addTypeMeta on every embedded resource of a schema.
func addEmbedded(s *spec.Schema) {
	if s == nil {
		return
	}
	for name, property := range s.Properties {
		addEmbedded(&property)
		s.Properties[name] = property
	}
	if s.Items != nil {
		addEmbedded(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		addEmbedded(s.AdditionalProperties.Schema)
	}
	if embedded, _ := s.Extensions.GetBool("x-kubernetes-embedded-resource"); embedded {
		addTypeMeta(s)
	}
}

// manager returns the field manager of a version and subresource.
func (m *models) manager(version, subresource string) (resource.FieldManager, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := managerKey{version, subresource}
	if manager, ok := m.managers[key]; ok {
		return manager, nil
	}
	types, err := m.types()
	if err != nil {
		return nil, err
	}
	reset := (&strategy{compiled: m.compiled, status: subresource == "status"}).GetResetFields()
	if subresource == "scale" {
		reset = nil
	}
	c := (&codec{compiled: m.compiled, hub: version}).Interfaces()
	library, err := managedfields.NewDefaultCRDFieldManager(types, c.Convertor, c.Defaulter, c.Creater, m.gvk(version),
		m.gvk(version).GroupVersion(), subresource, fieldpath.NewExcludeFilterSetMap(reset))
	if err != nil {
		return nil, fmt.Errorf("track fields of %s: %w", m.name, err)
	}
	manager, err := m.tracked(resource.Tracked{FieldManager: library}, types, version, subresource, reset)
	if err != nil {
		return nil, err
	}
	m.managers[key] = manager
	return manager, nil
}

// tracked returns the fast path in front of library, or library itself where the fast path does not
// apply.
func (m *models) tracked(library resource.FieldManager, types managedfields.TypeConverter, version, subresource string,
	reset map[fieldpath.APIVersion]*fieldpath.Set,
) (resource.FieldManager, error) {
	if subresource != "" && subresource != "status" || m.preserves() || m.noFastPaths {
		return library, nil
	}
	if _, err := m.versions[version].structural(); err != nil {
		return nil, err
	}
	var names []string
	if set, ok := reset[fieldpath.APIVersion(m.gvk(version).GroupVersion().String())]; ok {
		for path := range set.All() {
			names = append(names, *path[0].FieldName)
		}
	}
	return fastfields.NewMapManager(fastfields.MapConfig{
		Library: library, Types: types, Cache: m.fields, Kind: m.gvk(version), Subresource: subresource, Reset: names,
		Shape: m.versions[version].shape(),
		// a version without a usable schema has no defaults
		Default: func(u *unstructured.Unstructured) { _ = m.applyDefaults(u) },
	}), nil
}
