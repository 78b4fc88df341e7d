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

	"kelson.dev/apiserver/flowcontrol"
	"kelson.dev/apiserver/internal/turn"
)

// subject is the object of a request in one version. Its encoding is shared by all webhooks.
type subject struct {
	*admission.VersionedAttributes
	object, old []byte
}

// encode encodes the objects that are not encoded yet.
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

// call calls a webhook and returns its response if that allows the request. Otherwise the error is
// a *webhookutil.ErrCallingWebhook (the failure policy applies to it), a
// *webhookutil.ErrWebhookRejection, or an error that is not the webhook's fault.
func (h *hooks) call(ctx context.Context, inv *generic.WebhookInvocation, s *subject,
	mutating bool) (*request.AdmissionResponse, error) {
	hook := inv.Webhook
	failed := func(status *apierrors.StatusError, format string, args ...any) error {
		return &webhookutil.ErrCallingWebhook{WebhookName: hook.GetName(), Reason: fmt.Errorf(format, args...),
			Status: status}
	}
	if s.IsDryRun() {
		switch effects := hook.GetSideEffects(); {
		case effects == nil:
			return nil, failed(apierrors.NewBadRequest("Webhook SideEffects is nil"), "Webhook SideEffects is nil")
		case *effects != admissionregistrationv1.SideEffectClassNone &&
			*effects != admissionregistrationv1.SideEffectClassNoneOnDryRun:
			return nil, webhookerrors.NewDryRunUnsupportedErr(hook.GetName())
		}
	}
	uid, review, answer, err := request.CreateAdmissionObjects(s.VersionedAttributes, inv)
	if err != nil {
		return nil, failed(apierrors.NewBadRequest("error creating admission objects"),
			"could not create admission objects: %w", err)
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
		// The query has the timeout in whole seconds, rounded up.
		if left := time.Until(deadline); left > 0 {
			post.Timeout((left + time.Second - 1).Truncate(time.Second))
		}
	}
	resume, arrived := turn.Pause(ctx), flowcontrol.Wait(ctx)
	err = post.Do(ctx).Into(answer)
	arrived()
	resume()
	if err != nil {
		status, ok := err.(*apierrors.StatusError)
		if !ok {
			status = apierrors.NewServiceUnavailable("error calling webhook")
		}
		return nil, failed(status, "failed to call webhook: %w", err)
	}
	result, err := request.VerifyAdmissionResponse(uid, mutating, answer)
	if err != nil {
		return nil, failed(apierrors.NewServiceUnavailable("error validating webhook response"),
			"received invalid webhook response: %w", err)
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

// annotate adds an annotation to the audit event. It ignores errors: a duplicate or malformed key
// is the webhook's mistake and does not reject the request.
func annotate(a admission.Attributes, key, value string) { _ = a.AddAnnotation(key, value) }

// waited adds the time of a call to the latency trackers of the request. It sums the times of
// mutating webhooks. Of validating webhooks, which run concurrently, it uses the maximum.
func (h *hooks) waited(ctx context.Context, took time.Duration) {
	trackers, ok := latency.LatencyTrackersFrom(ctx)
	switch {
	case !ok:
	case h.kind == "admit":
		trackers.MutatingWebhookTracker.TrackDuration(took)
	default:
		trackers.ValidatingWebhookTracker.TrackDuration(took)
	}
}

// verdict applies the failure policy to an error of call. A nil refusal means that the request
// continues; open reports that it continues although the webhook failed.
func (h *hooks) verdict(ctx context.Context, inv *generic.WebhookInvocation, a admission.Attributes, took time.Duration,
	err error) (refusal error, open bool) {
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
	// the client canceled the request: not a failure of the webhook
	canceled := errors.Is(failed.Reason, context.Canceled)
	if policy := inv.Webhook.GetFailurePolicy(); policy == nil || *policy != admissionregistrationv1.Ignore {
		h.metrics.called(h.kind, name, op, code, true, took)
		if !canceled {
			h.metrics.refused(h.kind, name, op, "calling_webhook_error", code)
		}
		return apierrors.NewInternalError(err), false
	}
	h.metrics.called(h.kind, name, op, code, false, took)
	if !canceled {
		h.metrics.open(h.kind, name)
	}
	return nil, !canceled
}

// outOfTime returns a Timeout error if the deadline of the request has passed.
func outOfTime(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
}
