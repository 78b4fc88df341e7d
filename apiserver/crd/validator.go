package crd

import (
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"kelson.dev/apiserver/crd/certain"
)

// certainly is the library's, which is asked only where it is not certain that an object is valid.
type certainly struct {
	validation.SchemaValidator
	schema *certain.Schema
}

// newValidator returns the validator of a schema: the library's own with noFastPaths.
func newValidator(props *apiextensions.JSONSchemaProps, noFastPaths bool) (validation.SchemaValidator, error) {
	library, schema, err := validation.NewSchemaValidator(props)
	if err != nil || noFastPaths {
		return library, err
	}
	return certainly{SchemaValidator: library, schema: certain.Compile(schema)}, nil
}

func (v certainly) Validate(object any, options ...validation.ValidationOption) *validate.Result {
	if v.schema.Valid(object) {
		return &validate.Result{}
	}
	if part, cut := v.schema.Cut(object, maxDoubts); cut {
		if result := v.SchemaValidator.Validate(part, options...); len(result.Errors) > 0 {
			return result
		}
	}
	return v.SchemaValidator.Validate(object, options...)
}

// maxDoubts is how many elements and members of an object that may be wrong are shown to the library at first. If it finds errors, they are enough.
const maxDoubts = 500

// ValidateUpdate lets what did not change be invalid, as the library does: what is certainly valid needs no such leave.
func (v certainly) ValidateUpdate(object, old any, options ...validation.ValidationOption) *validate.Result {
	if v.schema.Valid(object) {
		return &validate.Result{}
	}
	if v.schema.Valid(old) { // then nothing that was wrong before is left as it is
		if part, cut := v.schema.Cut(object, maxDoubts); cut {
			if result := v.SchemaValidator.Validate(part, options...); len(result.Errors) > 0 {
				return result
			}
		}
	}
	return v.SchemaValidator.ValidateUpdate(object, old, options...)
}
