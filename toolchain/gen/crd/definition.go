package crd

import (
	"encoding/json"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kelson.dev/toolchain/model"
)

// Options configures a Generator.
type Options struct {
	// AllowFloats permits float32 and float64, which differ between languages and lose precision.
	// Without it they are errors.
	AllowFloats bool
	// EmbeddedObjectMeta generates a schema for metadata inside objects, for example in pod
	// templates: name, namespace, labels, annotations and finalizers. Without it the schema has no
	// fields, and a server prunes them.
	EmbeddedObjectMeta bool
	// Lenient turns errors that controller-gen ignores into warnings.
	Lenient bool
	// Descriptions limits the size of descriptions.
	Descriptions Budget
}

// Generator generates the definitions of one API. It builds a schema that several kinds share only
// once.
type Generator struct {
	b    *builder
	emit *emitter
}

// New returns a Generator.
func New(api *model.API, opts Options) *Generator {
	return &Generator{b: newBuilder(api, opts), emit: newEmitter()}
}

// Warnings returns the errors found so far that Options.Lenient turns into warnings. Each is a
// *loader.Error.
func (g *Generator) Warnings() []error { return g.b.warnings }

// FileName returns the name of the file of a resource.
func FileName(r *model.Resource) string { return r.Group + "_" + r.Plural + ".yaml" }

// Definition returns the CustomResourceDefinition of a resource. The error joins all errors.
func (g *Generator) Definition(r *model.Resource) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(),
			Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: r.Plural + "." + r.Group, Labels: r.Labels, Annotations: r.Annotations},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: r.Group,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: r.Kind, ListKind: r.ListKind, Plural: r.Plural, Singular: r.Singular, ShortNames: r.ShortNames,
				Categories: r.Categories,
			},
			Scope: apiextensionsv1.ClusterScoped,
		},
	}
	if r.Namespaced {
		crd.Spec.Scope = apiextensionsv1.NamespaceScoped
	}
	for _, v := range r.Versions {
		crd.Spec.Versions = append(crd.Spec.Versions, g.version(v))
	}
	return crd, errors.Join(g.b.takeErrors()...)
}

func (g *Generator) version(v *model.Version) apiextensionsv1.CustomResourceDefinitionVersion {
	schema := g.schema(v.Root)
	out := apiextensionsv1.CustomResourceDefinitionVersion{
		Name: v.Name, Served: v.Served, Storage: v.Storage, Deprecated: v.Deprecated, DeprecationWarning: v.Warning,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema},
	}
	if v.HasSubresources {
		out.Subresources = &apiextensionsv1.CustomResourceSubresources{}
	}
	if v.Status {
		out.Subresources.Status = &apiextensionsv1.CustomResourceSubresourceStatus{}
	}
	if v.Scale != nil {
		out.Subresources.Scale = &apiextensionsv1.CustomResourceSubresourceScale{
			SpecReplicasPath: v.Scale.Spec, StatusReplicasPath: v.Scale.Status, LabelSelectorPath: v.Scale.Selector}
	}
	for _, c := range v.Columns {
		out.AdditionalPrinterColumns = append(out.AdditionalPrinterColumns,
			apiextensionsv1.CustomResourceColumnDefinition{
				Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority,
				JSONPath: c.JSONPath})
	}
	for _, path := range v.Selectable {
		out.SelectableFields = append(out.SelectableFields, apiextensionsv1.SelectableField{JSONPath: path})
	}
	return out
}

// Schema returns the schema of a version of a kind. The caller may modify it.
func (g *Generator) Schema(root *model.Type) (*apiextensionsv1.JSONSchemaProps, error) {
	return g.schema(root), errors.Join(g.b.takeErrors()...)
}

func (g *Generator) schema(root *model.Type) *props {
	schema := g.b.flat(root.Type())
	if _, ok := schema.Properties["metadata"]; ok {
		// Servers validate metadata themselves and reject a schema for it.
		schema.Properties["metadata"] = props{Type: "object"}
	}
	return schema
}

// marshal encodes a definition as a YAML document without its status, which only servers write.
func marshal(crd *apiextensionsv1.CustomResourceDefinition) ([]byte, error) {
	meta := map[string]any{"name": crd.Name}
	if len(crd.Labels) > 0 {
		meta["labels"] = crd.Labels
	}
	if len(crd.Annotations) > 0 {
		meta["annotations"] = crd.Annotations
	}
	data, err := json.Marshal(map[string]any{"apiVersion": crd.APIVersion, "kind": crd.Kind, "metadata": meta,
		"spec": crd.Spec})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", crd.Name, err)
	}
	doc, err := yaml.JSONToYAML(data)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", crd.Name, err)
	}
	return append([]byte("---\n"), doc...), nil
}
