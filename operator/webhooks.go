package operator

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
	"kelson.dev/operator/webhook"
)

// Webhook adds admission webhooks for kind T. The operator calls W before objects are written: to
// set defaults if W is a webhook.Defaulter[T],
//
//	Default(ctx context.Context, obj *T) error
//
// and to validate with these methods, all of which are optional:
//
//	ValidateCreate(ctx context.Context, obj *T) (webhook.Warnings, error)
//	ValidateUpdate(ctx context.Context, old, obj *T) (webhook.Warnings, error)
//	ValidateDelete(ctx context.Context, obj *T) (webhook.Warnings, error)
//
// construct creates W. It takes an operator.Client or operator.Deps:
//
//	operator.Webhook[cnat.At](NewAtWebhook)
//
// The operator issues and renews the serving certificate, and writes its CA bundle into the webhook
// configurations; see Config.Webhooks.
func Webhook[T, D, W any, P client.Pointer[T]](construct func(D) W, opts ...WebhookOption) Part {
	var s webhookSettings
	for _, opt := range opts {
		opt(&s)
	}
	return hook(func(h *host) error {
		wrap := func(err error) error { return fmt.Errorf("webhook for %v: %w", reflect.TypeFor[T](), err) }
		kind, err := client.KindOf(P(new(T)), h.Client().Scheme())
		if err != nil {
			return wrap(fmt.Errorf("%w (is its AddToScheme among the parts?)", err))
		}
		d, err := pick[D](h.deps("webhook"))
		if err != nil {
			return wrap(err)
		}
		mutating, validating, err := webhook.Handlers[T, P](construct(d))
		if err != nil {
			return wrap(err)
		}
		for _, one := range []struct {
			handler  webhook.Handler
			path     string
			mutating bool
			option   string
		}{{mutating, s.defaulting, true, "DefaultingPath"}, {validating, s.validation, false, "ValidationPath"}} {
			if one.handler == nil && one.path != "" {
				return wrap(fmt.Errorf("the option %s is set, but no method is served at that path", one.option))
			}
			if one.handler != nil {
				if err := h.AddWebhook(webhook.Hook{Kind: kind, Path: one.path, Mutating: one.mutating},
					one.handler); err != nil {
					return wrap(err)
				}
			}
		}
		return nil
	})
}

// WebhookOption configures a Webhook.
type WebhookOption func(*webhookSettings)

type webhookSettings struct{ defaulting, validation string }

// DefaultingPath sets the path at which defaults are set; the default is controller-runtime's,
// webhook.MutatePath. The webhook configuration must have the same path.
func DefaultingPath(path string) WebhookOption {
	return func(s *webhookSettings) { s.defaulting = path }
}

// ValidationPath sets the path at which objects are validated; the default is controller-runtime's,
// webhook.ValidatePath. The webhook configuration must have the same path.
func ValidationPath(path string) WebhookOption {
	return func(s *webhookSettings) { s.validation = path }
}

// Admission serves an admission webhook at a path. The path of a mutating webhook begins with
// /mutate; for others, use MutatingAdmission.
func Admission[D any](path string, construct func(D) webhook.Handler) Part {
	return admission(path, strings.HasPrefix(path, "/mutate"), construct)
}

// MutatingAdmission serves a mutating admission webhook at any path.
func MutatingAdmission[D any](path string, construct func(D) webhook.Handler) Part {
	return admission(path, true, construct)
}

func admission[D any](path string, mutating bool, construct func(D) webhook.Handler) Part {
	return hook(func(h *host) error {
		d, err := pick[D](h.deps("webhook"))
		if err != nil {
			return fmt.Errorf("webhook %s: %w", path, err)
		}
		return h.AddWebhook(webhook.Hook{Path: path, Mutating: mutating}, construct(d))
	})
}

// Conversion serves the conversion of a kind between its versions. T is the hub version, with a
// method Hub. The other versions in the scheme have ConvertTo and ConvertFrom; see
// webhook.Convertible.
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

// hook returns a Part that Config.NoWebhooks disables.
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

// Setup calls do before the manager runs, so that do can add parts to it. The manager is
// deps.Manager. Main has then parsed the command line. deps.Client does not read yet; see
// BeforeStart.
func Setup(do func(deps Deps) error) Part {
	return partFunc(func(p *parts) error {
		p.start = append(p.start, func(h *host) error { return do(h.deps("")) })
		return nil
	})
}

// BeforeStart calls do when all parts are set up and before anything starts, on every replica. The
// operator starts if do returns nil, and otherwise ends with the error. ctx ends with the operator.
// do can read with deps.Live and write; reads of deps.Client fail, because the cache does not run.
//
//	operator.BeforeStart(func(ctx context.Context, deps operator.Deps) error {
//		return migrate(ctx, deps.Live)
//	})
func BeforeStart(do func(ctx context.Context, deps Deps) error) Part {
	return partFunc(func(p *parts) error {
		p.ready = append(p.ready, do)
		return nil
	})
}
