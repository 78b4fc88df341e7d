package crd

import (
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"kelson.dev/apiserver/fastpath/validity"
)

// fastValidator is a validator that calls the library only for objects that are not certainly
// valid.
type fastValidator struct {
	validation.SchemaValidator
	schema *validity.Schema
	work   *work
}

// newValidator returns the validator of a schema: the library's own with noFastPaths.
func newValidator(props *apiextensions.JSONSchemaProps, noFastPaths bool) (validation.SchemaValidator, error) {
	library, schema, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, err
	}
	work := workOf(schema)
	if work != nil {
		library = affordable{library, work}
	}
	if noFastPaths {
		return library, nil
	}
	return fastValidator{SchemaValidator: library, schema: validity.Compile(schema), work: work}, nil
}

// valid reports whether an object is certainly valid, and whether it is affordable: whether it
// takes little time to validate.
func (v fastValidator) valid(object any) (valid, affordable bool) {
	affordable = v.work.check(object) == nil
	return affordable && v.schema.Valid(object), affordable
}

func (v fastValidator) Validate(object any, options ...validation.ValidationOption) *validate.Result {
	valid, affordable := v.valid(object)
	switch {
	case valid:
		return &validate.Result{}
	case !affordable: // SchemaValidator refuses it; a walk of the schema would take long, too
		return v.SchemaValidator.Validate(object, options...)
	}
	if part, cut := v.schema.Cut(object, maxUncertain); cut {
		if result := v.SchemaValidator.Validate(part, options...); len(result.Errors) > 0 {
			return result
		}
	}
	return v.SchemaValidator.Validate(object, options...)
}

// maxUncertain bounds the elements and members that are not certainly valid in the first part of an
// object that the library validates. If the library finds errors in that part, it does not validate
// the rest.
const maxUncertain = 500

// ValidateUpdate ignores errors in parts that did not change, as the library does.
func (v fastValidator) ValidateUpdate(object, old any, options ...validation.ValidationOption) *validate.Result {
	valid, affordable := v.valid(object)
	switch {
	case valid:
		return &validate.Result{}
	case !affordable:
		return v.SchemaValidator.ValidateUpdate(object, old, options...)
	}
	if validBefore, _ := v.valid(old); validBefore { // then no error can be in an unchanged part
		if part, cut := v.schema.Cut(object, maxUncertain); cut {
			if result := v.SchemaValidator.Validate(part, options...); len(result.Errors) > 0 {
				return result
			}
		}
	}
	return v.SchemaValidator.ValidateUpdate(object, old, options...)
}
