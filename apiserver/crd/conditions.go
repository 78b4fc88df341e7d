package crd

import (
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"
)

// The reasons and messages are those of the controllers of k8s.io/apiextensions-apiserver that set
// the same conditions.

// setStatus sets the accepted names and the conditions of a definition, and claims the names. undo
// releases them if the write fails.
func (d *Definitions) setStatus(crd *apiextensions.CustomResourceDefinition) (undo func()) {
	// the strategy shares them with the old object
	crd.Status.Conditions = slices.Clone(crd.Status.Conditions)
	refusal, release := d.names.accept(crd)
	setNamesAccepted(crd, refusal)
	setEstablished(crd)
	if c := nonStructural(crd); c != nil {
		apiextensions.SetCRDCondition(crd, *c)
	} else {
		removeCondition(crd, apiextensions.NonStructuralSchema)
	}
	if c := approval(crd); c != nil {
		apiextensions.SetCRDCondition(crd, *c)
	}
	return release
}

func setNamesAccepted(crd *apiextensions.CustomResourceDefinition, refusal *nameRefusal) {
	c := apiextensions.CustomResourceDefinitionCondition{
		Type: apiextensions.NamesAccepted, Status: apiextensions.ConditionTrue, Reason: "NoConflicts",
		Message: "no conflicts found",
	}
	if refusal != nil {
		c.Status, c.Reason, c.Message = apiextensions.ConditionFalse, refusal.reason, refusal.message
	}
	apiextensions.SetCRDCondition(crd, c)
}

// setEstablished sets the Established condition, unless it is already true: a later name conflict
// does not revoke it.
func setEstablished(crd *apiextensions.CustomResourceDefinition) {
	if apiextensions.IsCRDConditionTrue(crd, apiextensions.Established) {
		return
	}
	c := apiextensions.CustomResourceDefinitionCondition{
		Type: apiextensions.Established, Status: apiextensions.ConditionTrue,
		Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
	}
	switch {
	case !apiextensions.IsCRDConditionTrue(crd, apiextensions.NamesAccepted):
		c.Status, c.Reason, c.Message = apiextensions.ConditionFalse, "NotAccepted", "not all names are accepted"
	case len(webhook.ValidateCABundle(field.NewPath("caBundle"), caBundle(crd))) > 0:
		c.Status, c.Reason, c.Message = apiextensions.ConditionFalse, "InvalidCABundle",
			"The conversion webhook CABundle is invalid"
	}
	apiextensions.SetCRDCondition(crd, c)
}

func caBundle(crd *apiextensions.CustomResourceDefinition) []byte {
	if crd.Spec.Conversion == nil || crd.Spec.Conversion.WebhookClientConfig == nil {
		return nil
	}
	return crd.Spec.Conversion.WebhookClientConfig.CABundle
}

// nonStructural returns the NonStructuralSchema condition, or nil if the schema is structural.
// Validation refuses new definitions that are not structural. Definitions that were stored before
// that rule keep the condition until they are fixed.
func nonStructural(crd *apiextensions.CustomResourceDefinition) *apiextensions.CustomResourceDefinitionCondition {
	var errs field.ErrorList
	if crd.Spec.PreserveUnknownFields != nil && *crd.Spec.PreserveUnknownFields {
		errs = append(errs, field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true, "must be false"))
	}
	c := &apiextensions.CustomResourceDefinitionCondition{Type: apiextensions.NonStructuralSchema}
	for i, v := range crd.Spec.Versions {
		props, err := apiextensions.GetSchemaForVersion(crd, v.Name)
		if err != nil || props == nil || props.OpenAPIV3Schema == nil {
			continue
		}
		s, err := structuralschema.NewStructural(props.OpenAPIV3Schema)
		if err != nil {
			c.Status, c.Reason = apiextensions.ConditionUnknown, "StructuralError"
			c.Message = fmt.Sprintf("failed to check validation schema for version %s: %v", v.Name, err)
			return c
		}
		errs = append(errs, structuralschema.ValidateStructural(
			field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema"), s)...)
	}
	if len(errs) == 0 {
		return nil
	}
	c.Status, c.Reason, c.Message = apiextensions.ConditionTrue, "Violations", errs.ToAggregate().Error()
	return c
}

// approval returns the KubernetesAPIApprovalPolicyConformant condition for a group of the
// Kubernetes community, else nil.
func approval(crd *apiextensions.CustomResourceDefinition) *apiextensions.CustomResourceDefinitionCondition {
	if !apihelpers.IsProtectedCommunityGroup(crd.Spec.Group) {
		return nil
	}
	state, message := apihelpers.GetAPIApprovalState(crd.Annotations)
	c := &apiextensions.CustomResourceDefinitionCondition{
		Type: apiextensions.KubernetesAPIApprovalPolicyConformant, Status: apiextensions.ConditionFalse,
		Message: message,
	}
	switch state {
	case apihelpers.APIApproved:
		c.Status, c.Reason = apiextensions.ConditionTrue, "ApprovedAnnotation"
	case apihelpers.APIApprovalBypassed:
		c.Reason = "UnapprovedAnnotation"
	case apihelpers.APIApprovalMissing:
		c.Reason = "MissingAnnotation"
	default:
		c.Reason = "InvalidAnnotation"
	}
	return c
}

// markTerminating updates a definition when its deletion begins.
func markTerminating(crd *apiextensions.CustomResourceDefinition) {
	if !apiextensions.CRDHasFinalizer(crd, apiextensions.CustomResourceCleanupFinalizer) {
		crd.Finalizers = append(crd.Finalizers, apiextensions.CustomResourceCleanupFinalizer)
	}
	setTerminating(crd, true, "InstanceDeletionPending",
		"CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon")
}

func setTerminating(crd *apiextensions.CustomResourceDefinition, status bool, reason, message string) {
	c := apiextensions.CustomResourceDefinitionCondition{
		Type: apiextensions.Terminating, Status: apiextensions.ConditionFalse, Reason: reason, Message: message,
	}
	if status {
		c.Status = apiextensions.ConditionTrue
	}
	apiextensions.SetCRDCondition(crd, c)
}

func removeCondition(crd *apiextensions.CustomResourceDefinition,
	t apiextensions.CustomResourceDefinitionConditionType) {
	if apiextensions.FindCRDCondition(crd, t) != nil {
		apiextensions.RemoveCRDCondition(crd, t)
	}
}

// served reports whether the paths of a definition are served.
func served(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) && crd.Status.AcceptedNames.Plural != ""
}

func groupResource(crd *apiextensionsv1.CustomResourceDefinition) schema.GroupResource {
	return schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Status.AcceptedNames.Plural}
}
