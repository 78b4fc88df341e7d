package crd_test

import (
	"bytes"
	"fmt"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A definition that arrives as protobuf means the same as one in JSON. In the Go type,
// additionalProperties with a schema allow no additional properties when they were decoded from
// protobuf, but what is stored allows them. Whichever was compiled first once decided.
func TestDefinitionsInProtobuf(t *testing.T) {
	p := newPlane(t)
	defer p.run()()
	schema := func(s apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaPropsOrBool {
		return &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &s}
	}
	for i := range 20 {
		plural := fmt.Sprintf("maps%d", i)
		definition := &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: fmt.Sprintf("Map%d", i)},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{
						OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
							Properties: map[string]apiextensionsv1.JSONSchemaProps{
								"of": {Type: "object",
									AdditionalProperties: schema(apiextensionsv1.JSONSchemaProps{Type: "object",
										AdditionalProperties: schema(
											apiextensionsv1.JSONSchemaProps{Type: "string"})})},
							}},
					}}},
			},
		}
		p.do("POST", definitionsPath, inProtobuf(t, definition), "Content-Type",
			"application/vnd.kubernetes.protobuf").want(201)
		body := func(name, value string) string {
			return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Map%d","metadata":{"name":%q},"of":{"a":{"b":%s}}}`, i, name, value)
		}
		path := "/apis/example.com/v1/namespaces/default/" + plural
		made := p.do("POST", path, body("a", `"c"`)).want(201)
		assert.Equalf(t, made.field("of.a.b"), "c", "created %s", made.body)
		a := p.do("POST", path, body("b", "1")).want(422)
		assert.Contains(t, a.message(), `of.a.b in body must be of type string`)
	}
}

// inProtobuf returns a definition in protobuf.
func inProtobuf(t *testing.T, definition *apiextensionsv1.CustomResourceDefinition) string {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	var body bytes.Buffer
	require.NoError(t, protobuf.NewSerializer(scheme, scheme).Encode(definition, &body))
	return body.String()
}
