package crd

import (
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	strategies "k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "k8s.io/apiserver/pkg/registry/rest"

	"kelson.dev/apiserver/fastpath/shape"
	"kelson.dev/apiserver/fastpath/validity"
	"kelson.dev/apiserver/resource"
)

// version is one version of a kind. Its functions compile on the first call and return the same
// result afterwards.
type version struct {
	spec *apiextensionsv1.CustomResourceDefinitionVersion
	// internal is the schema in the library's internal type; nil when the version has none.
	internal func() (*apiextensions.JSONSchemaProps, error)
	// structural is the schema for pruning, defaulting and CEL; nil when the version has no schema.
	structural func() (*structuralschema.Structural, error)
	// defaults are those of structural; nil when the version has none.
	defaults func() *defaults
	// shape decides which objects need neither pruning nor defaulting; nil without fast paths.
	shape func() *shape.Shape
	// rules validates. It compiles the CEL programs.
	rules func() (*rules, error)
	table func() upstream.TableConvertor
}

// rules are the library's strategies for one version.
type rules struct {
	main   resource.Strategy
	status upstream.RESTUpdateStrategy

	structural *structuralschema.Structural
	// schema and statusSchema decide which objects and statuses are certainly valid; nil if only
	// the library can. statusChecked means that the version validates statuses.
	schema, statusSchema *validity.Schema
	statusChecked        bool
	// work and statusWork limit the time of validation. They are checked before the schemas.
	work, statusWork *work
	// plain means that the version has no CEL rules, embedded objects or scale, which the two
	// schemas do not cover.
	plain bool
	lists *validity.Lists
}

func newVersion(c *compiled, spec *apiextensionsv1.CustomResourceDefinitionVersion) *version {
	v := &version{spec: spec}
	v.internal = sync.OnceValues(func() (*apiextensions.JSONSchemaProps, error) { return internalSchema(spec) })
	v.structural = sync.OnceValues(func() (*structuralschema.Structural, error) { return v.newStructural(c) })
	v.defaults = sync.OnceValue(func() *defaults {
		s, _ := v.structural()
		return defaultsOf(s)
	})
	v.shape = sync.OnceValue(func() *shape.Shape {
		if c.noFastPaths {
			return nil
		}
		s, _ := v.structural()
		return shape.FromStructural(s)
	})
	v.rules = sync.OnceValues(func() (*rules, error) { return v.newRules(c) })
	v.table = sync.OnceValue(func() upstream.TableConvertor { return newTable(spec) })
	return v
}

func (v *version) hasStatus() bool {
	return v.spec.Subresources != nil && v.spec.Subresources.Status != nil
}

// scale returns the version's scale subresource, or nil.
func (v *version) scale() *apiextensionsv1.CustomResourceSubresourceScale {
	if v.spec.Subresources == nil {
		return nil
	}
	return v.spec.Subresources.Scale
}

func internalSchema(spec *apiextensionsv1.CustomResourceDefinitionVersion) (*apiextensions.JSONSchemaProps, error) {
	if spec.Schema == nil || spec.Schema.OpenAPIV3Schema == nil {
		return nil, nil
	}
	out := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(spec.Schema.OpenAPIV3Schema,
		out, nil); err != nil {
		return nil, fmt.Errorf("schema of version %s: %w: %w", spec.Name, ErrSchema, err)
	}
	return out, nil
}

func (v *version) newStructural(c *compiled) (*structuralschema.Structural, error) {
	props, err := v.internal()
	if err != nil || props == nil {
		return nil, err
	}
	s, err := structuralschema.NewStructural(props)
	if c.preserves() {
		return s, nil // s may be nil: the version has no pruning and no defaults
	}
	if err != nil {
		return nil, fmt.Errorf("schema of version %s: %w: %w", v.spec.Name, ErrSchema, err)
	}
	s = s.DeepCopy() // defaults are shared with props
	if err := defaulting.PruneDefaults(s); err != nil {
		return nil, fmt.Errorf("defaults of version %s: %w: %w", v.spec.Name, ErrSchema, err)
	}
	return s, nil
}

func (v *version) newRules(c *compiled) (*rules, error) {
	props, err := v.internal()
	if err != nil {
		return nil, err
	}
	structural, err := v.structural()
	if err != nil {
		return nil, err
	}
	validator, err := newValidator(props, c.noFastPaths)
	if err != nil {
		return nil, fmt.Errorf("schema of version %s: %w: %w", v.spec.Name, ErrSchema, err)
	}
	var status *apiextensions.CustomResourceSubresourceStatus
	var statusValidator validation.SchemaValidator
	if v.hasStatus() {
		status = &apiextensions.CustomResourceSubresourceStatus{}
		if props != nil {
			if statusProps, ok := props.Properties["status"]; ok {
				if statusValidator, err = newValidator(&statusProps, c.noFastPaths); err != nil {
					return nil, fmt.Errorf("status schema of version %s: %w: %w", v.spec.Name, ErrSchema, err)
				}
			}
		}
	}
	var scale *apiextensions.CustomResourceSubresourceScale
	if s := v.scale(); s != nil {
		scale = &apiextensions.CustomResourceSubresourceScale{
			SpecReplicasPath: s.SpecReplicasPath, StatusReplicasPath: s.StatusReplicasPath,
			LabelSelectorPath: s.LabelSelectorPath,
		}
	}
	main := strategies.NewStrategy(crdserverscheme.NewUnstructuredObjectTyper(), c.namespaced, c.gvk(v.spec.Name),
		validator, statusValidator, structural, status, scale, v.spec.SelectableFields)
	r := &rules{main: main, status: strategies.NewStatusStrategy(main), structural: structural,
		plain: scale == nil && plainSchema(structural)}
	r.lists = validity.CompileLists(structural)
	if v, ok := validator.(fastValidator); ok {
		r.schema, r.work = v.schema, v.work
	}
	if v, ok := statusValidator.(fastValidator); ok {
		r.statusSchema, r.statusWork, r.statusChecked = v.schema, v.work, true
	}
	return r, nil
}

// plainSchema reports whether a schema is without CEL rules and embedded objects.
func plainSchema(s *structuralschema.Structural) bool {
	plain := s != nil
	visit(s, func(s *structuralschema.Structural) {
		if len(s.XValidations) > 0 || s.XEmbeddedResource {
			plain = false
		}
	})
	return plain
}

func visit(s *structuralschema.Structural, each func(*structuralschema.Structural)) {
	if s == nil {
		return
	}
	each(s)
	for name := range s.Properties {
		property := s.Properties[name]
		visit(&property, each)
	}
	if s.AdditionalProperties != nil {
		visit(s.AdditionalProperties.Structural, each)
	}
	visit(s.Items, each)
}

// newTable returns the printer columns. Like Kubernetes, it drops a column that it cannot parse and
// all that follow.
func newTable(spec *apiextensionsv1.CustomResourceDefinitionVersion) upstream.TableConvertor {
	columns := spec.AdditionalPrinterColumns
	if len(columns) == 0 {
		columns = []apiextensionsv1.CustomResourceColumnDefinition{ageColumn()}
	}
	t, _ := tableconvertor.New(columns)
	return t
}

func ageColumn() apiextensionsv1.CustomResourceColumnDefinition {
	return apiextensionsv1.CustomResourceColumnDefinition{
		Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
	}
}
