package crd

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kelson.dev/apiserver/celtypes"
)

// permitExpressions refuses definitions with rules whose types would be too large to check; see
// package celtypes.
func permitExpressions(_ context.Context, hub, _ runtime.Object) error {
	definition := hub.(*apiextensions.CustomResourceDefinition)
	var c expressionCheck
	if v := definition.Spec.Validation; v != nil {
		c.schema(field.NewPath("spec", "validation", "openAPIV3Schema"), v.OpenAPIV3Schema)
	}
	for i, version := range definition.Spec.Versions {
		if version.Schema != nil {
			c.schema(field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema"),
				version.Schema.OpenAPIV3Schema)
		}
	}
	if len(c.errs) > 0 {
		return apierrors.NewInvalid(definitionKind().GroupKind(), definition.Name, c.errs)
	}
	return nil
}

// expressionCheck collects an error for each expression of a definition that is too complex.
type expressionCheck struct {
	scope celtypes.Scope
	errs  field.ErrorList
}

func (c *expressionCheck) schema(path *field.Path, s *apiextensions.JSONSchemaProps) {
	if s == nil {
		return
	}
	for i, rule := range s.XValidations {
		path := path.Child("x-kubernetes-validations").Index(i)
		c.errs = append(c.errs, c.scope.Check(path.Child("rule"), rule.Rule)...)
		c.errs = append(c.errs, c.scope.Check(path.Child("messageExpression"), rule.MessageExpression)...)
	}
	for _, group := range []struct {
		name    string
		schemas map[string]apiextensions.JSONSchemaProps
	}{{"properties", s.Properties}, {"patternProperties", s.PatternProperties}, {"definitions", s.Definitions}} {
		for _, key := range slices.Sorted(maps.Keys(group.schemas)) {
			of := group.schemas[key]
			c.schema(path.Child(group.name).Key(key), &of)
		}
	}
	for _, group := range []struct {
		name    string
		schemas []apiextensions.JSONSchemaProps
	}{{"allOf", s.AllOf}, {"anyOf", s.AnyOf}, {"oneOf", s.OneOf}} {
		for i := range group.schemas {
			c.schema(path.Child(group.name).Index(i), &group.schemas[i])
		}
	}
	if s.Items != nil {
		c.schema(path.Child("items"), s.Items.Schema)
		for i := range s.Items.JSONSchemas {
			c.schema(path.Child("items").Index(i), &s.Items.JSONSchemas[i])
		}
	}
	if s.AdditionalProperties != nil {
		c.schema(path.Child("additionalProperties"), s.AdditionalProperties.Schema)
	}
	c.schema(path.Child("not"), s.Not)
}
