package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/request"
	latency "k8s.io/apiserver/pkg/endpoints/request"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/pkg/warning"
)

// subject is what a request is about, in one version, and its encoding: made once, however many webhooks are sent it.
type subject struct {
	*admission.VersionedAttributes
	object, old []byte
}

// encode makes what is missing of the encodings.
func (s *subject) encode() (err error) {
	if obj := s.VersionedObject.Object(); obj != nil && s.object == nil {
		if s.object, err = json.Marshal(obj); err != nil {
			return err
		}
	}
	if obj := s.VersionedOldObject.Object(); obj != nil && s.old == nil {
		s.old, err = json.Marshal(obj)
	}
	return err
}

// put replaces the objects of a review by their encodings.
func (s *subject) put(review runtime.Object) {
	put := func(into *runtime.RawExtension, data []byte) {
		if data != nil {
			*into = runtime.RawExtension{Raw: data}
		}
	}
	switch r := review.(type) {
	case *admissionv1.AdmissionReview:
		put(&r.Request.Object, s.object)
		put(&r.Request.OldObject, s.old)
	case *admissionv1beta1.AdmissionReview:
		put(&r.Request.Object, s.object)
		put(&r.Request.OldObject, s.old)
	}
}

// call asks a webhook. The answer allows the request; errors are: *webhookutil.ErrCallingWebhook, to which the failure policy
// applies, *webhookutil.ErrWebhookRejection, and others, which it does not concern.
func (h *hooks) call(ctx context.Context, inv *generic.WebhookInvocation, s *subject, mutating bool) (*request.AdmissionResponse, error) {
	hook := inv.Webhook
	failed := func(status *apierrors.StatusError, format string, args ...any) error {
		return &webhookutil.ErrCallingWebhook{WebhookName: hook.GetName(), Reason: fmt.Errorf(format, args...), Status: status}
	}
	if s.IsDryRun() {
		switch effects := hook.GetSideEffects(); {
		case effects == nil:
			return nil, failed(apierrors.NewBadRequest("Webhook SideEffects is nil"), "Webhook SideEffects is nil")
		case *effects != admissionregistrationv1.SideEffectClassNone && *effects != admissionregistrationv1.SideEffectClassNoneOnDryRun:
			return nil, webhookerrors.NewDryRunUnsupportedErr(hook.GetName())
		}
	}
	uid, review, answer, err := request.CreateAdmissionObjects(s.VersionedAttributes, inv)
	if err != nil {
		return nil, failed(apierrors.NewBadRequest("error creating admission objects"), "could not create admission objects: %w", err)
	}
	s.put(review)
	client, err := h.clients.get(hook)
	if err != nil {
		return nil, failed(apierrors.NewInternalError(err), "could not get REST client: %w", err)
	}
	if seconds := hook.GetTimeoutSeconds(); seconds != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*seconds)*time.Second)
		defer cancel()
	}
	post := client.Post().Body(review)
	if deadline, ok := ctx.Deadline(); ok {
		// The webhook is told how long it has, in whole seconds, rounded up.
		if left := time.Until(deadline); left > 0 {
			post.Timeout((left + time.Second - 1).Truncate(time.Second))
		}
	}
	if err := post.Do(ctx).Into(answer); err != nil {
		status, ok := err.(*apierrors.StatusError)
		if !ok {
			status = apierrors.NewServiceUnavailable("error calling webhook")
		}
		return nil, failed(status, "failed to call webhook: %w", err)
	}
	result, err := request.VerifyAdmissionResponse(uid, mutating, answer)
	if err != nil {
		return nil, failed(apierrors.NewServiceUnavailable("error validating webhook response"), "received invalid webhook response: %w", err)
	}
	for key, value := range result.AuditAnnotations {
		annotate(s, hook.GetName()+"/"+key, value)
	}
	for _, text := range result.Warnings {
		warning.AddWarning(ctx, "", text)
	}
	if !result.Allowed {
		return nil, &webhookutil.ErrWebhookRejection{Status: webhookerrors.ToStatusErr(hook.GetName(), result.Result)}
	}
	return result, nil
}

// annotate puts something into the audit record. A key that is taken, or that is none, is the webhook's mistake, and not a reason
// to refuse the request.
func annotate(a admission.Attributes, key, value string) { _ = a.AddAnnotation(key, value) }

// waited notes in the request's account that it was not the server that took the time. Mutating webhooks add up, of those that validate
// side by side the slowest counts.
func (h *hooks) waited(ctx context.Context, took time.Duration) {
	of, ok := latency.LatencyTrackersFrom(ctx)
	switch {
	case !ok:
	case h.kind == "admit":
		of.MutatingWebhookTracker.TrackDuration(took)
	default:
		of.ValidatingWebhookTracker.TrackDuration(took)
	}
}

// verdict is what an error of call means for the request: nil is to go on. Open says that it goes on without the webhook.
func (h *hooks) verdict(ctx context.Context, inv *generic.WebhookInvocation, a admission.Attributes, took time.Duration, err error) (refusal error, open bool) {
	var failed *webhookutil.ErrCallingWebhook
	var rejected *webhookutil.ErrWebhookRejection
	op, name := string(a.GetOperation()), inv.Webhook.GetName()
	h.waited(ctx, took)
	switch {
	case err == nil:
		h.metrics.called(h.kind, name, op, 200, false, took)
		return nil, false
	case errors.As(err, &rejected):
		code := int(rejected.Status.ErrStatus.Code)
		h.metrics.called(h.kind, name, op, code, true, took)
		h.metrics.refused(h.kind, name, op, "no_error", code)
		return rejected.Status, false
	case !errors.As(err, &failed):
		h.metrics.called(h.kind, name, op, 0, true, took)
		h.metrics.refused(h.kind, name, op, "apiserver_internal_error", 0)
		return err, false
	}
	code := int(failed.Status.ErrStatus.Code)
	given := errors.Is(failed.Reason, context.Canceled) // the client gave up: that says nothing of the webhook
	if policy := inv.Webhook.GetFailurePolicy(); policy == nil || *policy != admissionregistrationv1.Ignore {
		h.metrics.called(h.kind, name, op, code, true, took)
		if !given {
			h.metrics.refused(h.kind, name, op, "calling_webhook_error", code)
		}
		return apierrors.NewInternalError(err), false
	}
	h.metrics.called(h.kind, name, op, code, false, took)
	if !given {
		h.metrics.open(h.kind, name)
	}
	return nil, !given
}

// outOfTime is the refusal of a request whose own time is over.
func outOfTime(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
}
