package kubernetes_test

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// things has one custom kind, example.com/v1 Thing.
type things struct{}

func (things) OpenAPIHashes() map[schema.GroupVersion]string {
	return map[schema.GroupVersion]string{{Group: "example.com", Version: "v1"}: "1"}
}

func (things) OpenAPIV3(schema.GroupVersion) (*spec3.OpenAPI, error) {
	return &spec3.OpenAPI{Version: "3.0.0", Info: &spec.Info{InfoProps: spec.InfoProps{Title: "Things", Version: "v1"}},
		Paths: &spec3.Paths{}}, nil
}

func (things) OpenAPIV2(schema.GroupVersion) (*spec.Swagger, error) {
	thing := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Description: "a \"thing\""}}
	return &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Definitions: spec.Definitions{
			"com.example.v1.Thing":                            thing,
			"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {SchemaProps: spec.SchemaProps{Description: "not this"}},
		},
		Parameters: map[string]spec.Parameter{"thing-parameter": {ParamProps: spec.ParamProps{Name: "p", In: "query"},
			SimpleSchema: spec.SimpleSchema{Type: "string"}}},
		Paths: &spec.Paths{Paths: map[string]spec.PathItem{"/apis/example.com/v1/things": {}}},
	}}, nil
}

// counted counts the builds of a document.
type counted struct {
	things
	hash  string
	built int
}

func (c *counted) OpenAPIHashes() map[schema.GroupVersion]string {
	return map[schema.GroupVersion]string{{Group: "example.com", Version: "v1"}: c.hash}
}

func (c *counted) OpenAPIV3(gv schema.GroupVersion) (*spec3.OpenAPI, error) {
	c.built++
	return c.things.OpenAPIV3(gv)
}

func names[T interface{ GetName() string }](list []T) []string {
	out := make([]string, len(list))
	for i, item := range list {
		out[i] = item.GetName()
	}
	return out
}
