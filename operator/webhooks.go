package operator

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
	"kelson.dev/operator/webhook"
)

// Webhook takes part when objects of kind T are written: it defaults them if W is a webhook.Defaulter[T],
//
//	Default(ctx context.Context, obj *T) error
//
// and validates them if W is a webhook.Validator[T],
//
//	ValidateCreate(ctx context.Context, obj *T) (webhook.Warnings, error)
//	ValidateUpdate(ctx context.Context, old, obj *T) (webhook.Warnings, error)
//	ValidateDelete(ctx context.Context, obj *T) (webhook.Warnings, error)
//
// construct makes it, and takes an operator.Client or operator.Deps:
//
//	operator.Webhook[cnat.At](NewAtWebhook)
//
// The certificate is made and renewed by the operator, and its CA bundle is written into the configurations; see Config.Webhooks.
func Webhook[T, D, W any, P client.Pointer[T]](construct func(D) W) Part {
	return hook(func(h *host) error {
		kind, err := client.KindOf(P(new(T)), h.Client().Scheme())
		if err != nil {
			return fmt.Errorf("webhook for %v: %w (is its AddToScheme among the parts?)", reflect.TypeFor[T](), err)
		}
		d, err := pick[D](h.deps("webhook"))
		if err != nil {
			return fmt.Errorf("webhook for %v: %w", reflect.TypeFor[T](), err)
		}
		w := any(construct(d))
		defaulter, defaults := w.(webhook.Defaulter[T])
		validator, validates := w.(webhook.Validator[T])
		if !defaults && !validates {
			return fmt.Errorf("webhook for %v: %T has neither Default nor ValidateCreate, ValidateUpdate and ValidateDelete for it", reflect.TypeFor[T](), w)
		}
		if defaults {
			err = h.AddWebhook(webhook.Hook{Kind: kind, Mutating: true}, webhook.Default[T, P](defaulter))
		}
		if err == nil && validates {
			err = h.AddWebhook(webhook.Hook{Kind: kind}, webhook.Validate[T, P](validator))
		}
		return err
	})
}

// Admission serves any admission webhook at a path. One that changes objects has a path that begins with /mutate.
func Admission[D any](path string, construct func(D) webhook.Handler) Part {
	return hook(func(h *host) error {
		d, err := pick[D](h.deps("webhook"))
		if err != nil {
			return fmt.Errorf("webhook %s: %w", path, err)
		}
		return h.AddWebhook(webhook.Hook{Path: path, Mutating: strings.HasPrefix(path, "/mutate")}, construct(d))
	})
}

// Conversion serves the conversion of a kind between its versions. T is the one with a method Hub; the others, as far as the scheme has
// them, have ConvertTo and ConvertFrom (see webhook.Convertible).
func Conversion[T any, P interface {
	client.Pointer[T]
	webhook.Hub
}]() Part {
	return hook(func(h *host) error {
		kind, err := client.KindOf(P(new(T)), h.Client().Scheme())
		if err != nil {
			return fmt.Errorf("conversion of %v: %w (is its AddToScheme among the parts?)", reflect.TypeFor[T](), err)
		}
		return h.AddConversion(schema.GroupKind{Group: kind.Group, Kind: kind.Kind})
	})
}

// hook is a Part that is left out with Config.NoWebhooks.
func hook(add func(*host) error) Part {
	return partFunc(func(p *parts) error {
		p.start = append(p.start, func(h *host) error {
			if h.noWebhooks {
				return nil
			}
			return add(h)
		})
		return nil
	})
}

// Setup does something with the manager before it runs: m := deps.Manager.
func Setup(do func(deps Deps) error) Part {
	return partFunc(func(p *parts) error {
		p.start = append(p.start, func(h *host) error { return do(h.deps("")) })
		return nil
	})
}
