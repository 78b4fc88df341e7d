package crd

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	merge "sigs.k8s.io/structured-merge-diff/v6/schema"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// The models of this package produce the same merge schema as the documents that Kubernetes builds.
func TestModelsMatchKubernetes(t *testing.T) {
	for name, text := range map[string]string{
		"everything": `{"type":"object","properties":{"spec":{"type":"object","properties":{
			"list":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a","b"],"items":{"type":"object","required":["a"],
				"properties":{"a":{"type":"string"},"b":{"type":"string","default":"x"},"c":{"type":"integer"}}}},
			"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
			"atomic":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"a":{"type":"string"}}},
			"any":{"x-kubernetes-preserve-unknown-fields":true,"type":"object"},
			"embedded":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},
			"typed":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"spec":{"type":"object","properties":{"n":{"type":"number"}}}}},
			"port":{"x-kubernetes-int-or-string":true},"time":{"type":"string","format":"date-time"},
			"map":{"type":"object","additionalProperties":{"type":"object","properties":{"a":{"type":"boolean","nullable":true}}}}}},
			"status":{"type":"object","properties":{"n":{"type":"integer","format":"int32"}}}}}`,
		"nothing":   `{"type":"object"}`,
		"preserves": `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`,
	} {
		props := &apiextensionsv1.JSONSchemaProps{}
		require.NoError(t, json.Unmarshal([]byte(text), props))
		definition := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com",
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing",
				ListKind: "ThingList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props},
			}},
		}}
		definition.Status.AcceptedNames = definition.Spec.Names
		c := compile(&Definitions{}, definition, 1)
		structural, err := c.versions["v1"].structural()
		require.NoError(t, err)
		theirs, err := builder.BuildOpenAPIV3(definition, "v1", builder.Options{})
		require.NoError(t, err)
		shared, err := metadataModels(sharedScheme())
		require.NoError(t, err)
		ours := map[string]*spec.Schema{"com.example.v1.Thing": modelOf(structural, c.gvk("v1"))}
		for name, s := range shared {
			ours[name] = s
		}
		got, want := mergeTypes(t, ours), mergeTypes(t, theirs.Components.Schemas)
		if len(got) < 4 {
			t.Errorf("%s: only %d types", name, len(got))
		}
		for typeName, g := range got {
			assert.Deepf(t, g, want[typeName], "%s: %s", name, typeName)
		}
	}
}

func mergeTypes(t *testing.T, models map[string]*spec.Schema) map[string]merge.Atom {
	t.Helper()
	s, err := schemaconv.ToSchemaFromOpenAPI(models, false)
	require.NoError(t, err)
	out := map[string]merge.Atom{}
	for _, def := range s.Types {
		sortFields(&def.Atom)
		out[def.Name] = def.Atom
	}
	return out
}

// sortFields sorts the fields of a type, whose order is random.
func sortFields(a *merge.Atom) {
	if a.List != nil {
		sortFields(&a.List.ElementType.Inlined)
	}
	if a.Map == nil {
		return
	}
	sortFields(&a.Map.ElementType.Inlined)
	for i := range a.Map.Fields {
		sortFields(&a.Map.Fields[i].Type.Inlined)
	}
	// A copy without the type's index of its fields.
	a.Map = &merge.Map{Fields: a.Map.Fields, Unions: a.Map.Unions, ElementType: a.Map.ElementType,
		ElementRelationship: a.Map.ElementRelationship}
	slices.SortFunc(a.Map.Fields, func(x, y merge.StructField) int { return strings.Compare(x.Name, y.Name) })
}
