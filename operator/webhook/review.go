package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"

	admissionv1 "k8s.io/api/admission/v1"

	"kelson.dev/operator/reconcile"
)

// maxBody is more than twice the size limit of objects: the review of an update contains two.
const maxBody = 7 << 20

// Review returns an HTTP handler that reads an AdmissionReview, calls h, and responds with a review
// of the same version. If h panics, it logs that and responds with code 500.
func Review(h Handler) http.Handler { return reviewer{h} }

type reviewer struct{ handler Handler }

func (h reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	review := admissionv1.AdmissionReview{}
	var resp Response
	if code, err := readReview(w, r, &review); err != nil {
		resp = Errored(int32(code), err)
	} else if review.Request == nil {
		resp = Errored(http.StatusBadRequest, errors.New("the AdmissionReview has no request"))
	} else {
		resp = h.handle(r.Context(), Request{*review.Request})
	}
	answer := admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: encodeResponse(resp)}
	if answer.Kind == "" {
		answer.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	}
	if review.Request != nil {
		answer.Response.UID = review.Request.UID
	}
	writeJSON(w, answer)
}

func (h reviewer) handle(ctx context.Context, req Request) (resp Response) {
	log := reconcile.Log(ctx).With("kind", req.Kind.Kind, "namespace", req.Namespace, "name", req.Name, "operation",
		string(req.Operation))
	defer func() {
		if p := recover(); p != nil {
			log.Error("webhook panicked", "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			resp = Errored(http.StatusInternalServerError, fmt.Errorf("panic: %v", p))
			panicked(ctx)
		}
	}()
	ctx = context.WithValue(ctx, requestKey{}, req)
	return h.handler.Handle(reconcile.WithLog(ctx, log), req)
}

func encodeResponse(r Response) *admissionv1.AdmissionResponse {
	out := &admissionv1.AdmissionResponse{
		Allowed: r.Allowed, Result: r.Status, Warnings: r.Warnings, AuditAnnotations: r.AuditAnnotations,
	}
	if !r.Allowed && out.Result == nil {
		out.Result = Denied("").Status
	}
	if len(r.Patch) == 0 {
		return out
	}
	patch, err := json.Marshal(r.Patch)
	if err != nil {
		return encodeResponse(Errored(http.StatusInternalServerError, fmt.Errorf("encode patch: %w", err)))
	}
	kind := admissionv1.PatchTypeJSONPatch
	out.Patch, out.PatchType = patch, &kind
	return out
}

// readReview decodes the body of a request. With an error, it returns the status code for it.
func readReview(w http.ResponseWriter, r *http.Request, into any) (int, error) {
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, fmt.Errorf("method %s: want POST", r.Method)
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return http.StatusUnsupportedMediaType, fmt.Errorf("content type %q: want application/json",
			r.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge, err
	}
	if err != nil {
		return http.StatusBadRequest, fmt.Errorf("read review: %w", err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return http.StatusBadRequest, fmt.Errorf("decode review: %w", err)
	}
	return 0, nil
}

// writeJSON responds with 200 even for denials, which are in the review.
func writeJSON(w http.ResponseWriter, answer any) {
	data, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
}
