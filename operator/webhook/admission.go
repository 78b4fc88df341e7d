package webhook

import (
	"context"
	"errors"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Request is an admission request from the API server.
type Request struct {
	admissionv1.AdmissionRequest
}

// Response is the response to an admission request.
type Response struct {
	Allowed bool
	// Status is why the request is denied.
	Status *metav1.Status
	// Patch changes the object; the operations are applied in order.
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

// HandlerFunc adapts a function to a Handler.
type HandlerFunc func(ctx context.Context, req Request) Response

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, req Request) Response { return f(ctx, req) }

// Allowed returns a Response that allows a request.
func Allowed(warnings ...string) Response { return Response{Allowed: true, Warnings: warnings} }

// Denied returns a Response that denies a request with 403 Forbidden.
func Denied(message string) Response {
	return Response{Status: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: message,
	}}
}

// Errored returns a Response for a request that could not be processed.
func Errored(code int32, err error) Response {
	return Response{Status: &metav1.Status{Status: metav1.StatusFailure, Code: code, Message: err.Error()}}
}

// Refused returns a Response for an error of a webhook: the status of an API error, or 403 for
// other errors.
func Refused(err error) Response {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		s := status.Status()
		return Response{Status: &s}
	}
	return Denied(err.Error())
}

type requestKey struct{}

// RequestFrom returns the admission request being processed: the user, the operation, whether it is
// a dry run, and more.
func RequestFrom(ctx context.Context) (Request, bool) {
	req, ok := ctx.Value(requestKey{}).(Request)
	return req, ok
}
