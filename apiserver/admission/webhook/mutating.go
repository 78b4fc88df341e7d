package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apiserver/pkg/admission"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/request"
	"k8s.io/apiserver/pkg/apis/audit"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"

	"kelson.dev/apiserver/internal/jsonpatch"
)

// Mutating is the plugin MutatingAdmissionWebhook.
type Mutating struct{ *hooks }

var _ admission.MutationInterface = (*Mutating)(nil)

// NewMutating returns the plugin. The caller must call Stop.
func NewMutating(cfg Config) (*Mutating, error) {
	h, err := newHooks(cfg, mutatingConfigurations, "admit", mutatingOf, readMutating(cfg))
	return &Mutating{h}, err
}

// currentObject is the object between the calls of webhooks. It has one version at a time.
type currentObject struct {
	attributes admission.Attributes
	interfaces admission.ObjectInterfaces
	subject    *subject // nil before the first webhook
}

var _ generic.VersionedAttributeAccessor = (*currentObject)(nil)

func (c *currentObject) VersionedAttribute(kind schema.GroupVersionKind) (*admission.VersionedAttributes, error) {
	switch {
	case c.subject == nil:
		versioned, err := admission.NewVersionedAttributes(c.attributes, kind, c.interfaces)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		c.subject = &subject{VersionedAttributes: versioned}
	case c.subject.VersionedKind != kind:
		if err := admission.ConvertVersionedAttributes(c.subject.VersionedAttributes, kind, c.interfaces); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		c.subject.object, c.subject.old = nil, nil
	}
	return c.subject.VersionedAttributes, nil
}

// Admit calls the matching webhooks one after the other. A second round calls only the webhooks
// that allow reinvocation and after which the object changed.
func (p *Mutating) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	all, err := p.candidates(a)
	if err != nil || len(all) == 0 {
		return err
	}
	reinvocation := a.GetReinvocationContext()
	past, _ := reinvocation.Value(mutating.PluginName).(*history)
	if past == nil {
		past = &history{}
		reinvocation.SetValue(mutating.PluginName, past)
	}
	round := 0
	if reinvocation.IsReinvoke() {
		round = 1
		past.compare(a.GetObject())
	}
	defer func() { past.remember(a.GetObject()) }()

	object := &currentObject{attributes: a, interfaces: o}
	for i, hook := range all {
		seen := a
		if object.subject != nil {
			seen = object.subject // selectors match the object as changed by the previous webhooks
		}
		inv, err := p.invocation(ctx, hook, seen, o, object)
		if err != nil {
			return err
		}
		if inv == nil || round > 0 && !past.due[hook.GetUID()] {
			continue
		}
		if _, err := object.VersionedAttribute(inv.Kind); err != nil {
			return apierrors.NewInternalError(err)
		}
		changed, err := p.invoke(ctx, inv, object.subject, o, round, i)
		if changed {
			past.changed()
			reinvocation.SetShouldReinvoke()
		}
		if m, ok := hook.GetMutatingWebhook(); ok && m.ReinvocationPolicy != nil &&
			*m.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy {
			past.invoked(hook.GetUID())
		}
		if err != nil {
			return err
		}
	}
	if s := object.subject; s != nil && s.Dirty && s.VersionedObject.Object() != nil {
		return o.GetObjectConvertor().Convert(s.VersionedObject.Object(), a.GetObject(), nil)
	}
	return nil
}

// invoke calls a webhook and applies its patch.
func (p *Mutating) invoke(ctx context.Context, inv *generic.WebhookInvocation, s *subject, o admission.ObjectInterfaces,
	round, index int) (changed bool, refusal error) {
	hook := inv.Webhook
	place := fmt.Sprintf("round_%d_index_%d", round, index)
	if err := s.encode(); err != nil {
		return false, apierrors.NewInternalError(err)
	}
	begin := time.Now()
	result, err := p.call(ctx, inv, s, true)
	if err == nil && len(result.Patch) > 0 {
		changed, err = p.patch(hook.GetName(), hook.GetConfigurationName(), place, result, s, o)
	}
	if note, err := json.Marshal(mutating.MutationAuditAnnotation{Configuration: hook.GetConfigurationName(),
		Webhook: hook.GetName(), Mutated: changed}); err == nil {
		annotate(s, mutating.MutationAuditAnnotationPrefix+place, string(note))
	}
	refusal, open := p.verdict(ctx, inv, s, time.Since(begin), err)
	if open {
		annotate(s, mutating.MutationAuditAnnotationFailedOpenKeyPrefix+place, hook.GetName())
	}
	if err != nil && refusal == nil {
		refusal = outOfTime(ctx)
	}
	return changed, refusal
}

// patch applies the patch of a webhook. It returns the same kinds of errors as call.
func (p *Mutating) patch(name, configuration, place string, result *request.AdmissionResponse, s *subject,
	o admission.ObjectInterfaces) (changed bool, err error) {
	failed := func(text string, err error, status *apierrors.StatusError) error {
		return &webhookutil.ErrCallingWebhook{WebhookName: name, Reason: fmt.Errorf("%s: %w", text, err),
			Status: status}
	}
	patch, err := jsonpatch.Decode(result.Patch)
	if err != nil {
		return false, failed("received undecodable patch in webhook response", err,
			apierrors.NewServiceUnavailable("error decoding patch in webhook response"))
	}
	before := s.VersionedObject.Object()
	switch {
	case len(patch) == 0:
		return false, nil
	case before == nil:
		return false, apierrors.NewInternalError(
			fmt.Errorf("admission webhook %q attempted to modify the object, which is not supported for this operation",
				name))
	case result.PatchType != admissionv1.PatchTypeJSONPatch:
		return false, &webhookutil.ErrCallingWebhook{WebhookName: name,
			Reason: fmt.Errorf("unsupported patch type %q", result.PatchType),
			Status: webhookerrors.ToStatusErr(name, result.Result)}
	case len(patch) > jsonpatch.MaxOperations:
		return false, apierrors.NewInternalError(
			fmt.Errorf("admission webhook %q: the allowed maximum operations in a JSON patch is %d, got %d", name,
				jsonpatch.MaxOperations, len(patch)))
	case jsonpatch.TooDeep(s.object, result.Patch):
		return false, apierrors.NewInternalError(
			fmt.Errorf("admission webhook %q: the patch or the patched object is nested too deeply", name))
	}
	after, err := patch.Apply(s.object)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	obj, err := decode(after, before, s.VersionedKind, o)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	changed = !apiequality.Semantic.DeepEqual(before, obj)
	if note, err := json.Marshal(mutating.PatchAuditAnnotation{Configuration: configuration, Webhook: name,
		Patch: patch, PatchType: string(result.PatchType)}); err == nil {
		_ = s.AddAnnotationWithLevel(mutating.PatchAuditAnnotationPrefix+place, string(note), audit.LevelRequest)
	}
	if d := o.GetObjectDefaulter(); d != nil {
		d.Default(obj)
	}
	s.UpdateObject(obj)
	s.object = nil
	return changed, nil
}

// decode decodes a patched object to the type of the previous one.
func decode(data []byte, before runtime.Object, kind schema.GroupVersionKind,
	o admission.ObjectInterfaces) (runtime.Object, error) {
	var into runtime.Object = &unstructured.Unstructured{}
	if _, custom := before.(*unstructured.Unstructured); !custom {
		var err error
		if into, err = o.GetObjectCreater().New(kind); err != nil {
			return nil, err
		}
	}
	s := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, o.GetObjectCreater(),
		o.GetObjectTyper(), jsonserializer.SerializerOptions{})
	obj, _, err := s.Decode(data, nil, into)
	return obj, err
}
