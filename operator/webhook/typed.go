package webhook

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
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

// A validator has one or more of the methods of these interfaces. An error denies the request: an
// API error (such as from apierrors.NewInvalid) with its status, other errors with 403.
type (
	// CreateValidator validates objects that are created.
	CreateValidator[T any] interface {
		ValidateCreate(ctx context.Context, obj *T) (Warnings, error)
	}
	// UpdateValidator validates updates, including updates of objects that are being deleted, such
	// as the removal of a finalizer.
	UpdateValidator[T any] interface {
		ValidateUpdate(ctx context.Context, old, obj *T) (Warnings, error)
	}
	// DeleteValidator validates deletions. It is called only if the webhook configuration has the
	// operation DELETE.
	DeleteValidator[T any] interface {
		ValidateDelete(ctx context.Context, obj *T) (Warnings, error)
	}
	// Validator validates all three operations.
	Validator[T any] interface {
		CreateValidator[T]
		UpdateValidator[T]
		DeleteValidator[T]
	}
)

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
	return validating[T, P]{v, v, v}
}

// Handlers returns a Handler for each kind of webhook for which w has methods: mutating if w is a
// Defaulter, validating if it is a CreateValidator, UpdateValidator or DeleteValidator. The
// validating Handler allows the operations for which w has no method. A Handler for which w has no
// method is nil. It is an error if w has none of these methods, or has one with a different
// signature.
func Handlers[T any, P client.Pointer[T]](w any) (mutating, validating Handler, err error) {
	defaulter, _ := w.(Defaulter[T])
	v := validatorsOf[T, P](w)
	for _, m := range []struct {
		name string
		used bool
	}{{"Default", defaulter != nil}, {"ValidateCreate", v.create != nil}, {"ValidateUpdate", v.update != nil},
		{"ValidateDelete", v.delete != nil}} {
		if method, ok := reflect.TypeOf(w).MethodByName(m.name); ok && !m.used {
			return nil, nil, fmt.Errorf("method %s of %T has the type %v, which is not that of a webhook for %v",
				m.name, w, method.Type, reflect.TypeFor[T]())
		}
	}
	if defaulter != nil {
		mutating = Default[T, P](defaulter)
	}
	if v.create != nil || v.update != nil || v.delete != nil {
		validating = v
	}
	if mutating == nil && validating == nil {
		return nil, nil, fmt.Errorf("%T has none of the methods of webhook.Defaulter and webhook.Validator for this kind", w)
	}
	return mutating, validating, nil
}

// validating is a Handler that calls validators, which may be nil.
type validating[T any, P client.Pointer[T]] struct {
	create CreateValidator[T]
	update UpdateValidator[T]
	delete DeleteValidator[T]
}

func validatorsOf[T any, P client.Pointer[T]](w any) (v validating[T, P]) {
	v.create, _ = w.(CreateValidator[T])
	v.update, _ = w.(UpdateValidator[T])
	v.delete, _ = w.(DeleteValidator[T])
	return v
}

func (v validating[T, P]) Handle(ctx context.Context, req Request) Response {
	var warnings Warnings
	var err error
	switch {
	case req.Operation == admissionv1.Create && v.create != nil:
		var obj P
		if obj, err = decode[T, P](req.Object.Raw); err != nil {
			return Errored(http.StatusBadRequest, err)
		}
		warnings, err = v.create.ValidateCreate(ctx, (*T)(obj))
	case req.Operation == admissionv1.Update && v.update != nil:
		var obj, old P
		if obj, err = decode[T, P](req.Object.Raw); err == nil {
			old, err = decode[T, P](req.OldObject.Raw)
		}
		if err != nil {
			return Errored(http.StatusBadRequest, err)
		}
		warnings, err = v.update.ValidateUpdate(ctx, (*T)(old), (*T)(obj))
	case req.Operation == admissionv1.Delete && v.delete != nil:
		var old P
		if old, err = decode[T, P](req.OldObject.Raw); err != nil {
			return Errored(http.StatusBadRequest, err)
		}
		warnings, err = v.delete.ValidateDelete(ctx, (*T)(old))
	}
	resp := Allowed()
	if err != nil {
		resp = Refused(err)
	}
	resp.Warnings = warnings
	return resp
}

func decode[T any, P client.Pointer[T]](raw []byte) (P, error) {
	obj := P(new(T))
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, obj); err != nil {
		return nil, fmt.Errorf("decode %T: %w", obj, err)
	}
	return obj, nil
}
