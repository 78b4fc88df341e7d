package webhook

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
)

// Validating is the plugin ValidatingAdmissionWebhook.
type Validating struct{ *hooks }

var _ admission.ValidationInterface = (*Validating)(nil)

// NewValidating returns the plugin. The caller must call Stop.
func NewValidating(cfg Config) (*Validating, error) {
	h, err := newHooks(cfg, validatingConfigurations, "validating", validatingOf, readValidating(cfg))
	return &Validating{h}, err
}

// subjects holds the versions of the object of a request.
type subjects struct {
	attributes admission.Attributes
	interfaces admission.ObjectInterfaces
	made       map[schema.GroupVersionKind]*subject
}

var _ generic.VersionedAttributeAccessor = (*subjects)(nil)

func (v *subjects) VersionedAttribute(kind schema.GroupVersionKind) (*admission.VersionedAttributes, error) {
	s, err := v.version(kind)
	if err != nil {
		return nil, err
	}
	return s.VersionedAttributes, nil
}

func (v *subjects) version(kind schema.GroupVersionKind) (*subject, error) {
	if s := v.made[kind]; s != nil {
		return s, nil
	}
	versioned, err := admission.NewVersionedAttributes(v.attributes, kind, v.interfaces)
	if err != nil {
		return nil, err
	}
	s := &subject{VersionedAttributes: versioned}
	if v.made == nil {
		v.made = map[schema.GroupVersionKind]*subject{}
	}
	v.made[kind] = s
	return s, nil
}

// Validate calls all matching webhooks concurrently and waits for all of them.
func (p *Validating) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	all, err := p.candidates(a)
	if err != nil || len(all) == 0 {
		return err
	}
	versions := &subjects{attributes: a, interfaces: o}
	var invocations []*generic.WebhookInvocation
	for _, hook := range all {
		inv, err := p.invocation(ctx, hook, a, o, versions)
		if err != nil {
			return err
		}
		if inv == nil {
			continue
		}
		invocations = append(invocations, inv)
		s, err := versions.version(inv.Kind)
		if err == nil {
			err = s.encode()
		}
		if err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	if len(invocations) == 0 {
		return nil
	}
	if err := outOfTime(ctx); err != nil {
		return err
	}
	refusals := make(chan error, len(invocations)) // in order of arrival: the first is returned
	var calls sync.WaitGroup
	for i, inv := range invocations[1:] {
		calls.Go(func() { refusals <- p.invoke(ctx, inv, versions.made[inv.Kind], i+1) })
	}
	refusals <- p.invoke(ctx, invocations[0], versions.made[invocations[0].Kind], 0)
	calls.Wait()
	close(refusals)
	for err := range refusals {
		if err != nil {
			return err
		}
	}
	return nil
}

// invoke calls a webhook. A panic fails the request, not the process.
func (p *Validating) invoke(ctx context.Context, inv *generic.WebhookInvocation, s *subject,
	index int) (refusal error) {
	defer func() {
		if r := recover(); r != nil {
			refusal = apierrors.NewInternalError(fmt.Errorf("ValidatingAdmissionWebhook/%v has panicked: %v",
				inv.Webhook.GetName(), r))
		}
	}()
	begin := time.Now()
	_, err := p.call(ctx, inv, s, false)
	refusal, open := p.verdict(ctx, inv, s, time.Since(begin), err)
	if open {
		annotate(s, fmt.Sprintf("%sround_0_index_%d", validating.ValidatingAuditAnnotationFailedOpenKeyPrefix, index),
			inv.Webhook.GetName())
	}
	return refusal
}
