package apiserver

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	upstream "k8s.io/apiserver/pkg/endpoints/deprecation"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// declared is a version whose type has rules in markers. kelson generate validation writes the
// method.
type declared interface {
	ValidateDeclaratively(ctx context.Context, op operation.Operation, old runtime.Object) field.ErrorList
}

// validateDeclared checks the rules in the markers of the hub and, if the client uses another
// version, those of that version. old is nil for a create. Rules at the level alpha have no effect.
func (s *strategy) validateDeclared(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	if !slices.ContainsFunc(s.kind.versions, func(v *kindVersion) bool { _, ok := v.proto.(declared); return ok }) {
		return nil
	}
	op := operation.Operation{Type: operation.Create, Options: map[string]bool{}}
	if old != nil {
		op.Type = operation.Update
	}
	if s.ofStatus {
		op.Request.Subresources = []string{"status"}
	}
	for _, options := range s.kind.rules.options {
		maps.Copy(op.Options, options(ctx, obj, old))
	}
	errs, err := s.validateVersion(ctx, op, obj, old)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	if hub, ok := obj.(declared); ok {
		for _, e := range hub.ValidateDeclaratively(ctx, op, old) {
			if !slices.ContainsFunc(errs, func(had *field.Error) bool {
				return had.Type == e.Type && had.Field == e.Field && had.Detail == e.Detail
			}) {
				errs = append(errs, e)
			}
		}
	}
	return validate.FilterEnforcedDeclarativeErrors(ctx, errs, true)
}

// validateVersion checks the rules of the version of the request, if it is not the hub.
func (s *strategy) validateVersion(ctx context.Context, op operation.Operation,
	obj, old runtime.Object) (field.ErrorList, error) {
	info, ok := request.RequestInfoFrom(ctx)
	if !ok || info.APIGroup != s.kind.group {
		return nil, nil
	}
	v := s.kind.version(info.APIVersion)
	if v == nil || v == s.kind.hub() {
		return nil, nil
	}
	if _, ok := v.proto.(declared); !ok {
		return nil, nil
	}
	now, err := s.convert(v, obj)
	if err != nil {
		return nil, err
	}
	var before runtime.Object
	if old != nil {
		if before, err = s.convert(v, old); err != nil {
			return nil, err
		}
	}
	return now.(declared).ValidateDeclaratively(ctx, op, before), nil
}

// convert returns a copy of a hub in another version.
func (s *strategy) convert(v *kindVersion, hub runtime.Object) (runtime.Object, error) {
	out, err := s.New(s.kind.gvk(v.name))
	if err == nil {
		err = v.fromHub(out, hub.DeepCopyObject())
	}
	if err != nil {
		return nil, fmt.Errorf("convert to %s for validation: %w", v.name, err)
	}
	return out, nil
}

// deprecation returns the warning for clients that use a deprecated version, or "". The methods
// that kelson generate lifecycle writes name the release that deprecates a type. A server without a
// release such as v1.4.0 warns of all types that any release deprecates.
func deprecation(gvk schema.GroupVersionKind, proto runtime.Object, release string) string {
	major, minor := 0, 0
	if v, err := version.ParseGeneric(release); err == nil {
		major, minor = int(v.Major()), int(v.Minor())
	}
	if !upstream.IsDeprecated(proto, major, minor) {
		return ""
	}
	obj := proto.DeepCopyObject()
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return upstream.WarningMessage(obj)
}
