package webhook

import (
	"context"
	"errors"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Request is what the API server asks: may this be done, and how?
type Request struct {
	admissionv1.AdmissionRequest
}

// Response is the answer.
type Response struct {
	Allowed bool
	// Status tells why something is not allowed.
	Status *metav1.Status
	// Patch changes the object, in the order of its operations.
	Patch []Operation
	// Warnings are shown to the user.
	Warnings []string
	// AuditAnnotations are written to the audit log.
	AuditAnnotations map[string]string
}

// Handler answers admission requests.
type Handler interface {
	Handle(ctx context.Context, req Request) Response
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, req Request) Response

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, req Request) Response { return f(ctx, req) }

// Allowed lets a request pass.
func Allowed(warnings ...string) Response { return Response{Allowed: true, Warnings: warnings} }

// Denied refuses a request, as 403 Forbidden.
func Denied(message string) Response {
	return Response{Status: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message,
	}}
}

// Errored refuses a request that could not be judged.
func Errored(code int32, err error) Response {
	return Response{Status: &metav1.Status{Status: metav1.StatusFailure, Code: code, Message: err.Error()}}
}

// Refused is the answer for an error of a webhook: the status of an API error, or 403 for any other.
func Refused(err error) Response {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		s := status.Status()
		return Response{Status: &s}
	}
	return Denied(err.Error())
}

type requestKey struct{}

// RequestFrom is the admission request under way: who asks, for which operation, and whether it is a dry run.
func RequestFrom(ctx context.Context) (Request, bool) {
	req, ok := ctx.Value(requestKey{}).(Request)
	return req, ok
}
