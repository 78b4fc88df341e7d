package rest

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	upstream "k8s.io/apiserver/pkg/registry/rest"

	"kelson.dev/apiserver/resource"
)

const (
	// maxErrors bounds how many validation errors a response lists. Kubernetes' libraries compare
	// each error with all others and copy all messages for each one: a list of sixty thousand empty
	// containers would take them a minute.
	maxErrors = 500
	// maxErrorText bounds their text, in bytes: an error shows the wrong value, which can be most
	// of the object.
	maxErrorText = 1 << 20
)

// maxWarned is the maximum number of members of each map and list of an object; beyond it, no
// warnings are computed. For example, Kubernetes compares each port of a pod with all others and
// creates a warning for each pair, but the header of a response has room only for some dozens.
const maxWarned = 512

// firstErrors returns the first of many errors, and one that states their number.
func firstErrors(errs field.ErrorList) field.ErrorList {
	text := 0
	for i, err := range errs {
		if text += len(err.ErrorBody()); i > 0 && (i == maxErrors || text > maxErrorText) {
			more := &field.Error{Type: field.ErrorTypeTooMany, BadValue: field.OmitValueType{},
				Detail: fmt.Sprintf("there are %d errors, of which the first %d are shown", len(errs), i)}
			return append(errs[:i:i], more)
		}
	}
	return errs
}

// creating is a strategy that limits errors and skips warnings for wide objects. Upstream runs
// declarative validation last, with all other errors.
type creating struct{ upstream.RESTCreateStrategy }

func (c creating) ValidateDeclaratively(ctx context.Context, obj, old runtime.Object, errs field.ErrorList,
	op operation.Type, config upstream.DeclarativeValidationConfig) field.ErrorList {
	return declared(c.RESTCreateStrategy, ctx, obj, old, errs, op, config)
}

func (c creating) DeclarativeValidationConfig(ctx context.Context,
	obj, old runtime.Object) upstream.DeclarativeValidationConfig {
	return declaredConfig(c.RESTCreateStrategy, ctx, obj, old)
}

func (c creating) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	if resource.Wider(obj, maxWarned) {
		return nil
	}
	return c.RESTCreateStrategy.WarningsOnCreate(ctx, obj)
}

// updating is like creating, for updates.
type updating struct{ upstream.RESTUpdateStrategy }

func (u updating) ValidateDeclaratively(ctx context.Context, obj, old runtime.Object, errs field.ErrorList,
	op operation.Type, config upstream.DeclarativeValidationConfig) field.ErrorList {
	return declared(u.RESTUpdateStrategy, ctx, obj, old, errs, op, config)
}

func (u updating) DeclarativeValidationConfig(ctx context.Context,
	obj, old runtime.Object) upstream.DeclarativeValidationConfig {
	return declaredConfig(u.RESTUpdateStrategy, ctx, obj, old)
}

func (u updating) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	if resource.Wider(obj, maxWarned) || resource.Wider(old, maxWarned) {
		return nil
	}
	return u.RESTUpdateStrategy.WarningsOnUpdate(ctx, obj, old)
}

func declared(strategy any, ctx context.Context, obj, old runtime.Object, errs field.ErrorList, op operation.Type,
	config upstream.DeclarativeValidationConfig) field.ErrorList {
	if s, ok := strategy.(upstream.DeclarativeValidationStrategy); ok && len(errs) <= maxErrors {
		errs = s.ValidateDeclaratively(ctx, obj, old, errs, op, config)
	}
	return firstErrors(errs)
}

func declaredConfig(strategy any, ctx context.Context,
	obj, old runtime.Object) (config upstream.DeclarativeValidationConfig) {
	if s, ok := strategy.(upstream.DeclarativeValidationStrategy); ok {
		config = s.DeclarativeValidationConfig(ctx, obj, old)
	}
	return config
}
