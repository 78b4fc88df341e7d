package apiserver

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// documents describes the kinds of a server to package openapi.
type documents struct{ kinds []*kind }

// definition returns a CustomResourceDefinition with the schemas of a kind. Kubernetes' builder
// turns it into the documents that clients expect of such a kind.
func (k *kind) definition() (*apiextensionsv1.CustomResourceDefinition, error) {
	d := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: k.plural + "." + k.group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: k.group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: k.plural, Singular: k.singular, Kind: k.name,
				ListKind: k.name + "List"},
		},
	}
	if k.cluster {
		d.Spec.Scope = apiextensionsv1.ClusterScoped
	}
	d.Status.AcceptedNames = d.Spec.Names
	for _, v := range k.versions {
		s, err := k.schemaOf(v)
		if err != nil {
			return nil, err
		}
		version := apiextensionsv1.CustomResourceDefinitionVersion{
			Name: v.name, Served: !v.unserved, Storage: v.name == k.storage,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: s},
		}
		if _, has := s.Properties["status"]; has {
			version.Subresources = &apiextensionsv1.CustomResourceSubresources{
				Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
		}
		d.Spec.Versions = append(d.Spec.Versions, version)
	}
	return d, nil
}

// model returns the type model of a kind's versions for managedFields and server-side apply.
func (k *kind) model() (managedfields.TypeConverter, error) {
	d, err := k.definition()
	if err != nil {
		return nil, err
	}
	schemas := map[string]*spec.Schema{}
	for _, v := range k.versions {
		doc, err := builder.BuildOpenAPIV3(d, v.name, builder.Options{})
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", k.name, err)
		}
		maps.Copy(schemas, doc.Components.Schemas)
	}
	types, err := managedfields.NewTypeConverter(schemas, false)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", k.name, err)
	}
	return types, nil
}

// in returns the kinds that are served in a group version.
func (d documents) in(gv schema.GroupVersion) (all []*kind) {
	for _, k := range d.kinds {
		if v := k.version(gv.Version); k.group == gv.Group && v != nil && !v.unserved {
			all = append(all, k)
		}
	}
	return all
}

// OpenAPIHashes implements openapi.Custom.
func (d documents) OpenAPIHashes() map[schema.GroupVersion]string {
	out := map[schema.GroupVersion]string{}
	for _, k := range d.kinds {
		for _, v := range k.versions {
			gv := schema.GroupVersion{Group: k.group, Version: v.name}
			if _, done := out[gv]; done || v.unserved {
				continue
			}
			sum := sha256.New()
			for _, k := range d.in(gv) {
				definition, err := k.definition()
				if err != nil {
					continue // New has built it without an error
				}
				_ = json.NewEncoder(sum).Encode(definition) // writes to a hash cannot fail
				for _, d := range k.subDocs {
					fmt.Fprintln(sum, d.name, d.methods)
					if d.body == nil {
						continue
					}
					if definition, err := k.bodyDefinition(d.body); err == nil {
						_ = json.NewEncoder(sum).Encode(definition)
					}
				}
			}
			out[gv] = fmt.Sprintf("%X", sum.Sum(nil))
		}
	}
	return out
}

// OpenAPIV3 implements openapi.Custom.
func (d documents) OpenAPIV3(gv schema.GroupVersion) (*spec3.OpenAPI, error) {
	var specs []*spec3.OpenAPI
	for _, k := range d.in(gv) {
		definition, err := k.definition()
		if err != nil {
			return nil, err
		}
		s, err := builder.BuildOpenAPIV3(definition, gv.Version, builder.Options{})
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", k.name, err)
		}
		if err := k.addSubsV3(s, gv.Version); err != nil {
			return nil, err
		}
		specs = append(specs, s)
	}
	merged, err := builder.MergeSpecsV3(specs...)
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", gv, err)
	}
	return merged, nil
}

// OpenAPIV2 implements openapi.Custom.
func (d documents) OpenAPIV2(gv schema.GroupVersion) (*spec.Swagger, error) {
	out := &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Paths: &spec.Paths{Paths: map[string]spec.PathItem{}}, Definitions: spec.Definitions{},
		Parameters: map[string]spec.Parameter{},
	}}
	for _, k := range d.in(gv) {
		definition, err := k.definition()
		if err != nil {
			return nil, err
		}
		s, err := builder.BuildOpenAPIV2(definition, gv.Version, builder.Options{V2: true})
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", k.name, err)
		}
		if err := k.addSubsV2(s, gv.Version); err != nil {
			return nil, err
		}
		maps.Copy(out.Definitions, handler.PruneDefaults(s.Definitions))
		maps.Copy(out.Parameters, s.Parameters)
		maps.Copy(out.Paths.Paths, s.Paths.Paths)
	}
	return out, nil
}
