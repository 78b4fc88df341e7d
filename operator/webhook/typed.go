package webhook

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"kelson.dev/operator/client"
)

// Warnings are shown to the user, one per line.
type Warnings = []string

// Defaulter sets defaults in an object that is created or updated, by modifying obj. An error
// denies the request.
type Defaulter[T any] interface {
	Default(ctx context.Context, obj *T) error
}

// Validator validates objects of one Go type. An error denies the request: an API error (such as
// from apierrors.NewInvalid) with its status, other errors with 403. Validators are also called for
// updates of objects that are being deleted, such as the removal of a finalizer.
type Validator[T any] interface {
	ValidateCreate(ctx context.Context, obj *T) (Warnings, error)
	ValidateUpdate(ctx context.Context, old, obj *T) (Warnings, error)
	// ValidateDelete is called only if the webhook configuration has the operation DELETE.
	ValidateDelete(ctx context.Context, obj *T) (Warnings, error)
}

// MutatePath returns the path of the mutating webhook of a kind.
func MutatePath(kind schema.GroupVersionKind) string { return "/mutate-" + pathOf(kind) }

// ValidatePath returns the path of the validating webhook of a kind.
func ValidatePath(kind schema.GroupVersionKind) string { return "/validate-" + pathOf(kind) }

func pathOf(kind schema.GroupVersionKind) string {
	return strings.ReplaceAll(kind.Group, ".", "-") + "-" + kind.Version + "-" + strings.ToLower(kind.Kind)
}

// Default returns a Handler that calls a Defaulter. It allows deletions.
func Default[T any, P client.Pointer[T]](d Defaulter[T]) Handler {
	return HandlerFunc(func(ctx context.Context, req Request) Response {
		if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
			return Allowed()
		}
		obj, err := decode[T, P](req.Object.Raw)
		if err != nil {
			return Errored(http.StatusBadRequest, err)
		}
		before := obj.DeepCopyObject()
		if err := d.Default(ctx, (*T)(obj)); err != nil {
			return Refused(err)
		}
		patch, err := Diff(req.Object.Raw, before, obj)
		if err != nil {
			return Errored(http.StatusInternalServerError, err)
		}
		return Response{Allowed: true, Patch: patch}
	})
}

// Validate returns a Handler that calls a Validator. It allows operations other than CREATE, UPDATE
// and DELETE.
func Validate[T any, P client.Pointer[T]](v Validator[T]) Handler {
	return HandlerFunc(func(ctx context.Context, req Request) Response {
		var obj, old P
		var err error
		if req.Operation == admissionv1.Create || req.Operation == admissionv1.Update {
			if obj, err = decode[T, P](req.Object.Raw); err != nil {
				return Errored(http.StatusBadRequest, err)
			}
		}
		if req.Operation == admissionv1.Update || req.Operation == admissionv1.Delete {
			if old, err = decode[T, P](req.OldObject.Raw); err != nil {
				return Errored(http.StatusBadRequest, err)
			}
		}
		var warnings Warnings
		switch req.Operation {
		case admissionv1.Create:
			warnings, err = v.ValidateCreate(ctx, (*T)(obj))
		case admissionv1.Update:
			warnings, err = v.ValidateUpdate(ctx, (*T)(old), (*T)(obj))
		case admissionv1.Delete:
			warnings, err = v.ValidateDelete(ctx, (*T)(old))
		}
		resp := Allowed()
		if err != nil {
			resp = Refused(err)
		}
		resp.Warnings = warnings
		return resp
	})
}

func decode[T any, P client.Pointer[T]](raw []byte) (P, error) {
	obj := P(new(T))
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, obj); err != nil {
		return nil, fmt.Errorf("decode %T: %w", obj, err)
	}
	return obj, nil
}
