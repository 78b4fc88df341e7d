package webhook

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
)

// invocation returns the resource and kind with which to call a webhook, or nil if the request does
// not match.
//
// A selector that cannot be evaluated, because the namespace does not exist, is an error only for
// webhooks whose rules match.
func (h *hooks) invocation(ctx context.Context, hook webhook.WebhookAccessor, a admission.Attributes,
	o admission.ObjectInterfaces, versions generic.VersionedAttributeAccessor) (*generic.WebhookInvocation, error) {
	inNamespace, namespaceErr := h.namespaces.MatchNamespaceSelector(hook, a)
	if !inNamespace && namespaceErr == nil {
		return nil, nil
	}
	selected, objectErr := h.objects.MatchObjectSelector(hook, a)
	if !selected && objectErr == nil {
		return nil, nil
	}
	inv, err := byRules(hook, a, o)
	switch {
	case inv == nil || err != nil:
		return nil, err
	case namespaceErr != nil:
		return nil, namespaceErr
	case objectErr != nil:
		return nil, objectErr
	case len(hook.GetMatchConditions()) == 0:
		return inv, nil
	}
	versioned, err := versions.VersionedAttribute(inv.Kind)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	switch result := hook.GetCompiledMatcher(h.compiler()).Match(ctx, versioned, nil, h.authorizer); {
	case result.Error != nil:
		return nil, apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(), result.Error)
	case !result.Matches:
		return nil, nil
	}
	return inv, nil
}

// byRules returns the first rule that matches the request's resource or, if the match policy allows
// it, an equivalent resource.
func byRules(hook webhook.WebhookAccessor, a admission.Attributes,
	o admission.ObjectInterfaces) (*generic.WebhookInvocation, error) {
	for _, rule := range hook.GetRules() {
		if (&rules.Matcher{Rule: rule, Attr: a}).Matches() {
			return &generic.WebhookInvocation{Webhook: hook, Resource: a.GetResource(), Subresource: a.GetSubresource(),
				Kind: a.GetKind()}, nil
		}
	}
	if policy := hook.GetMatchPolicy(); policy == nil || *policy != admissionregistrationv1.Equivalent {
		return nil, nil
	}
	mapper := o.GetEquivalentResourceMapper()
	equivalents := mapper.EquivalentResourcesFor(a.GetResource(), a.GetSubresource())
	for _, rule := range hook.GetRules() {
		for _, resource := range equivalents {
			if resource == a.GetResource() ||
				!(&rules.Matcher{Rule: rule, Attr: equivalentRequest{a, resource}}).Matches() {
				continue
			}
			kind := mapper.KindFor(resource, a.GetSubresource())
			if kind.Empty() {
				return nil, apierrors.NewInternalError(fmt.Errorf("unable to convert to %v: unknown kind", resource))
			}
			return &generic.WebhookInvocation{Webhook: hook, Resource: resource, Subresource: a.GetSubresource(),
				Kind: kind}, nil
		}
	}
	return nil, nil
}

// equivalentRequest presents a request as one for another resource.
type equivalentRequest struct {
	admission.Attributes
	resource schema.GroupVersionResource
}

func (a equivalentRequest) GetResource() schema.GroupVersionResource { return a.resource }
