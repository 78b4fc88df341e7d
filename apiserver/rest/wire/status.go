package wire

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

	"kelson.dev/apiserver/store"
)

// StatusKind returns the kind of errors and of some other responses.
func StatusKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Version: "v1", Kind: "Status"}
}

// Status returns the Status for an error. All errors are converted here. An error with a
// metav1.Status, such as apierrors.StatusError, keeps it. Each of the store's sentinel errors has a
// reason. Every other error is an internal error.
func Status(err error) *metav1.Status {
	var own interface{ Status() metav1.Status }
	if !errors.As(err, &own) {
		own = translate(err)
	}
	s := own.Status()
	if s.Status == "" {
		s.Status = metav1.StatusFailure
	}
	if s.Code == 0 {
		s.Code = http.StatusInternalServerError
		if s.Status == metav1.StatusSuccess {
			s.Code = http.StatusOK
		}
	}
	s.Kind, s.APIVersion = "Status", "v1"
	return &s
}

func translate(err error) *apierrors.StatusError {
	switch {
	// The storage's error contains names of files of this machine, so it is only logged.
	case errors.Is(err, store.ErrFull):
		full := apierrors.NewServiceUnavailable("the storage of the server is full; nothing was written")
		full.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
		return full
	case errors.Is(err, store.ErrTooDeep):
		return apierrors.NewRequestEntityTooLargeError("the object is nested too deeply")
	case errors.Is(err, store.ErrNotWritten):
		return apierrors.NewInternalError(store.ErrNotWritten)
	case errors.Is(err, store.ErrFailed):
		return apierrors.NewServiceUnavailable(
			"the storage of the server failed; no more writes are accepted until it is restarted")
	case errors.Is(err, store.ErrClosed):
		return apierrors.NewServiceUnavailable(err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	case errors.Is(err, store.ErrConflict), storage.IsConflict(err):
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict,
			Message: err.Error(),
		}}
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonUnknown,
		Message: err.Error(),
	}}
}

// Error responds with an error. It uses the representation that the client requested, if a Status
// can have it.
func Error(w http.ResponseWriter, req *http.Request, err error) {
	s := Status(err)
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	}
	if s.Code == http.StatusNoContent {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	f, negotiated := Negotiate(req, Allow{Protobuf: true})
	if negotiated != nil {
		// report the error even if the client does not accept its format
		f = Format{Media: "application/json", Pretty: true}
	}
	WriteStatus(w, req, f, s)
}

// WriteStatus responds with a Status and its code.
func WriteStatus(w http.ResponseWriter, req *http.Request, f Format, s *metav1.Status) {
	bare, err := Encode(f.Bare(), s)
	if err != nil { // a Status can always be encoded
		f, bare = Format{Media: "application/json"},
			[]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}`)
	}
	Object(w, req, int(s.Code), f, StatusKind(), bare)
}

// JSON responds with a value that is not an API object.
func JSON(w http.ResponseWriter, req *http.Request, code int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		Error(w, req, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	send(w, req, code, [][]byte{body})
}
