package applyconfiguration

import (
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// components is the path of a schema in a document of OpenAPI v3.
const components = "#/components/schemas/"

// metaDefinitions returns the schemas of the types in metav1, by their names in documents.
var metaDefinitions = sync.OnceValue(func() map[string]common.OpenAPIDefinition {
	return openapi.GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef(components + name) })
})

// openapiSchema returns the schema that a server publishes for a kind whose
// CustomResourceDefinition has the schema props: with apiVersion, kind and metadata. A server does
// not publish the fields of a schema that is not structural.
//
// Kubernetes does this in k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder, which
// builds whole documents. That package needs the handlers of k8s.io/apiserver, three times as many
// packages as the generators.
func openapiSchema(props *apiextensionsv1.JSONSchemaProps) (*spec.Schema, error) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, &internal,
		nil); err != nil {
		return nil, err
	}
	root := &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}
	if s, err := schema.NewStructural(&internal); err == nil && len(schema.ValidateStructural(nil, s)) == 0 {
		root = s.Unfold().ToKubeOpenAPI()
		addTypeMeta(root)
		addEmbedded(root)
	}
	return root, nil
}

// addTypeMeta adds the fields of every object.
func addTypeMeta(s *spec.Schema) {
	types := metaDefinitions()[metav1.TypeMeta{}.OpenAPIModelName()].Schema
	s.SetProperty("apiVersion", types.Properties["apiVersion"])
	s.SetProperty("kind", types.Properties["kind"])
	s.SetProperty("metadata", *spec.RefSchema(components + metav1.ObjectMeta{}.OpenAPIModelName()))
}

// addEmbedded adds the fields of every object to the embedded objects in s.
func addEmbedded(s *spec.Schema) {
	if s == nil {
		return
	}
	for name, p := range s.Properties {
		addEmbedded(&p)
		s.Properties[name] = p
	}
	if s.Items != nil {
		addEmbedded(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		addEmbedded(s.AdditionalProperties.Schema)
	}
	if embedded, _ := s.Extensions.GetBool("x-kubernetes-embedded-resource"); embedded {
		addTypeMeta(s)
		for _, name := range []string{"apiVersion", "kind"} {
			if !slices.Contains(s.Required, name) {
				s.Required = append(s.Required, name)
			}
		}
	}
}
