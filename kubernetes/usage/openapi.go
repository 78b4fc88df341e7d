package usage

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"kelson.dev/apiserver/openapi"
)

// Describe adds the documents of metrics.k8s.io to those of custom kinds, unless a definition
// replaces this package's kinds.
func Describe(custom openapi.Custom) openapi.Custom { return described{custom} }

type described struct{ openapi.Custom }

func (d described) isOwn(gv schema.GroupVersion) bool {
	_, defined := d.Custom.OpenAPIHashes()[gv]
	return gv == v1beta1.SchemeGroupVersion && !defined
}

// OpenAPIHashes implements [openapi.Custom].
func (d described) OpenAPIHashes() map[schema.GroupVersion]string {
	all := maps.Clone(d.Custom.OpenAPIHashes())
	if all == nil {
		all = map[schema.GroupVersion]string{}
	}
	if _, ok := all[v1beta1.SchemeGroupVersion]; !ok {
		all[v1beta1.SchemeGroupVersion] = hash()
	}
	return all
}

var hash = sync.OnceValue(func() string {
	sum := sha256.New()
	_ = json.NewEncoder(sum).Encode(definitions()) // writes to a hash do not fail
	return fmt.Sprintf("%X", sum.Sum(nil))
})

// OpenAPIV3 implements [openapi.Custom].
func (d described) OpenAPIV3(gv schema.GroupVersion) (*spec3.OpenAPI, error) {
	if !d.isOwn(gv) {
		return d.Custom.OpenAPIV3(gv)
	}
	var all []*spec3.OpenAPI
	for _, def := range definitions() {
		doc, err := builder.BuildOpenAPIV3(def, version, builder.Options{})
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", def.Name, err)
		}
		for _, path := range doc.Paths.Paths {
			path.Post, path.Put, path.Patch, path.Delete = nil, nil, nil, nil
		}
		all = append(all, doc)
	}
	return builder.MergeSpecsV3(all...)
}

// OpenAPIV2 implements [openapi.Custom].
func (d described) OpenAPIV2(gv schema.GroupVersion) (*spec.Swagger, error) {
	if !d.isOwn(gv) {
		return d.Custom.OpenAPIV2(gv)
	}
	out := &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Paths: &spec.Paths{Paths: map[string]spec.PathItem{}}, Definitions: spec.Definitions{},
		Parameters: map[string]spec.Parameter{},
	}}
	for _, def := range definitions() {
		doc, err := builder.BuildOpenAPIV2(def, version, builder.Options{V2: true})
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", def.Name, err)
		}
		maps.Copy(out.Definitions, handler.PruneDefaults(doc.Definitions))
		maps.Copy(out.Parameters, doc.Parameters)
		for name, path := range doc.Paths.Paths {
			path.Post, path.Put, path.Patch, path.Delete = nil, nil, nil, nil
			out.Paths.Paths[name] = path
		}
	}
	return out, nil
}

// definitions describes the kinds as definitions of custom kinds. Kubernetes' builder makes the
// documents from them.
func definitions() []*apiextensionsv1.CustomResourceDefinition {
	type props = map[string]apiextensionsv1.JSONSchemaProps
	text := func(format, description string) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "string", Format: format, Description: description}
	}
	used := apiextensionsv1.JSONSchemaProps{
		Type: "object", Description: "The processor time, in cores, and the memory that were used.",
		AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &apiextensionsv1.JSONSchemaProps{
			XIntOrString: true, AnyOf: []apiextensionsv1.JSONSchemaProps{{Type: "integer"}, {Type: "string"}},
		}},
	}
	definition := func(plural, name, description string, scope apiextensionsv1.ResourceScope,
		properties props) *apiextensionsv1.CustomResourceDefinition {
		properties["timestamp"] = text("date-time", "When the usage was measured: the end of the window.")
		properties["window"] = text("", "The duration over which the usage was measured.")
		d := &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: plural + "." + v1beta1.GroupName},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: v1beta1.GroupName, Scope: scope,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: name,
					ListKind: name + "List"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: version, Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", Description: description, Properties: properties,
						Required: []string{"timestamp", "window"},
					}},
				}},
			},
		}
		d.Status.AcceptedNames = d.Spec.Names
		return d
	}
	container := apiextensionsv1.JSONSchemaProps{
		Type: "object", Required: []string{"name", "usage"},
		Properties: props{"name": text("", "The name of the container."), "usage": used},
	}
	return []*apiextensionsv1.CustomResourceDefinition{
		definition("pods", "PodMetrics", "PodMetrics is the usage of a pod.", apiextensionsv1.NamespaceScoped, props{
			"containers": {Type: "array", Description: "The usage of each container.",
				Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &container}},
		}),
		definition("nodes", "NodeMetrics", "NodeMetrics is the usage of a node.", apiextensionsv1.ClusterScoped,
			props{"usage": used}),
	}
}
