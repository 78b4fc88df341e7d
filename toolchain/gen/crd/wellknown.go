package crd

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"kelson.dev/toolchain/loader"
)

// quantityPattern is the syntax that resource.ParseQuantity accepts.
const quantityPattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`

// wellKnown returns the schema of a type of Kubernetes whose JSON form does not follow from its
// fields; nil for all other types.
func (b *builder) wellKnown(n *loader.Named) *props {
	yes := true
	intOrString := []props{{Type: "integer"}, {Type: "string"}}
	switch n.Decl.Pkg.Path + "." + n.Decl.Name {
	case "k8s.io/apimachinery/pkg/apis/meta/v1.ObjectMeta":
		if b.opts.EmbeddedObjectMeta {
			return objectMeta()
		}
		return &props{Type: "object"}
	case "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured.Unstructured":
		return &props{Type: "object"}
	case "k8s.io/apimachinery/pkg/apis/meta/v1.Time", "k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":
		return &props{Type: "string", Format: "date-time"}
	case "k8s.io/apimachinery/pkg/apis/meta/v1.Duration":
		return &props{Type: "string"}
	case "k8s.io/apimachinery/pkg/apis/meta/v1.Fields":
		return &props{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true}}
	case "k8s.io/apimachinery/pkg/api/resource.Quantity":
		return &props{XIntOrString: true, AnyOf: intOrString, Pattern: quantityPattern}
	case "k8s.io/apimachinery/pkg/util/intstr.IntOrString":
		return &props{XIntOrString: true, AnyOf: intOrString}
	case "k8s.io/apimachinery/pkg/runtime.RawExtension":
		return &props{Type: "object", XPreserveUnknownFields: &yes}
	case "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON",
		"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1.JSON":
		return &props{XPreserveUnknownFields: &yes}
	}
	return nil
}

// objectMeta is the schema of the metadata that users write.
func objectMeta() *props {
	text := props{Type: "string"}
	texts := props{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true,
		Schema: &text}}
	return &props{Type: "object", Properties: map[string]props{
		"name": text, "namespace": text, "labels": texts, "annotations": texts, "finalizers": *array(&text),
	}}
}
