package builtin

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	deviceapi "k8s.io/kubernetes/pkg/apis/resource"

	"kelson.dev/apiserver/celtypes"
	"kelson.dev/apiserver/resource"
)

// withExpressions returns hooks that also refuse objects with CEL expressions whose types would be
// too large to check; see package celtypes. Permit runs before the strategy compiles them. hooks
// may be nil.
func withExpressions(empty runtime.Object, kind schema.GroupKind, hooks *resource.Hooks) *resource.Hooks {
	if !hasExpressions(empty) {
		return hooks
	}
	out := &resource.Hooks{}
	if hooks != nil {
		*out = *hooks
	}
	permit := out.Permit
	out.Permit = func(ctx context.Context, hub, old runtime.Object) error {
		if errs := checkExpressions(hub); len(errs) > 0 {
			object, err := meta.Accessor(hub)
			if err != nil {
				return err
			}
			return apierrors.NewInvalid(kind, object.GetName(), errs)
		}
		if permit == nil {
			return nil
		}
		return permit(ctx, hub, old)
	}
	return out
}

// hasExpressions reports whether objects of the type of hub can contain CEL expressions.
func hasExpressions(hub runtime.Object) bool {
	switch hub.(type) {
	case *admissionregistration.ValidatingAdmissionPolicy, *admissionregistration.MutatingAdmissionPolicy,
		*admissionregistration.ValidatingWebhookConfiguration, *admissionregistration.MutatingWebhookConfiguration,
		*deviceapi.ResourceClaim, *deviceapi.ResourceClaimTemplate, *deviceapi.DeviceClass:
		return true
	}
	return false
}

// checkExpressions returns an error for each expression of an object that is too complex.
func checkExpressions(hub runtime.Object) (errs field.ErrorList) {
	var scope celtypes.Scope
	spec := field.NewPath("spec")
	check := func(path *field.Path, expression string) { errs = append(errs, scope.Check(path, expression)...) }
	variables := func(variables []admissionregistration.Variable) {
		for i, v := range variables {
			errs = append(errs, scope.Add(spec.Child("variables").Index(i).Child("expression"), v.Name,
				v.Expression)...)
		}
	}
	conditions := func(path *field.Path, conditions []admissionregistration.MatchCondition) {
		for i, c := range conditions {
			check(path.Child("matchConditions").Index(i).Child("expression"), c.Expression)
		}
	}
	selectors := func(path *field.Path, selectors []deviceapi.DeviceSelector) {
		for i, s := range selectors {
			if s.CEL != nil {
				check(path.Child("selectors").Index(i).Child("cel", "expression"), s.CEL.Expression)
			}
		}
	}
	claim := func(path *field.Path, spec *deviceapi.ResourceClaimSpec) {
		for i, r := range spec.Devices.Requests {
			path := path.Child("devices", "requests").Index(i)
			if r.Exactly != nil {
				selectors(path.Child("exactly"), r.Exactly.Selectors)
			}
			for j, sub := range r.FirstAvailable {
				selectors(path.Child("firstAvailable").Index(j), sub.Selectors)
			}
		}
	}
	switch hub := hub.(type) {
	case *admissionregistration.ValidatingAdmissionPolicy:
		conditions(spec, hub.Spec.MatchConditions)
		variables(hub.Spec.Variables)
		for i, v := range hub.Spec.Validations {
			path := spec.Child("validations").Index(i)
			check(path.Child("expression"), v.Expression)
			check(path.Child("messageExpression"), v.MessageExpression)
		}
		for i, a := range hub.Spec.AuditAnnotations {
			check(spec.Child("auditAnnotations").Index(i).Child("valueExpression"), a.ValueExpression)
		}
	case *admissionregistration.MutatingAdmissionPolicy:
		conditions(spec, hub.Spec.MatchConditions)
		variables(hub.Spec.Variables)
		for i, m := range hub.Spec.Mutations {
			path := spec.Child("mutations").Index(i)
			if m.ApplyConfiguration != nil {
				check(path.Child("applyConfiguration", "expression"), m.ApplyConfiguration.Expression)
			}
			if m.JSONPatch != nil {
				check(path.Child("jsonPatch", "expression"), m.JSONPatch.Expression)
			}
		}
	case *admissionregistration.ValidatingWebhookConfiguration:
		for i, w := range hub.Webhooks {
			conditions(field.NewPath("webhooks").Index(i), w.MatchConditions)
		}
	case *admissionregistration.MutatingWebhookConfiguration:
		for i, w := range hub.Webhooks {
			conditions(field.NewPath("webhooks").Index(i), w.MatchConditions)
		}
	case *deviceapi.ResourceClaim:
		claim(spec, &hub.Spec)
	case *deviceapi.ResourceClaimTemplate:
		claim(spec.Child("spec"), &hub.Spec.Spec)
	case *deviceapi.DeviceClass:
		selectors(spec, hub.Spec.Selectors)
	}
	return errs
}
