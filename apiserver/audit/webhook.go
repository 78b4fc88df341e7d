package audit

import (
	"context"
	"log/slog"

	"k8s.io/apimachinery/pkg/runtime/schema"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	hookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/audit/webhook"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/bounded"
)

// hook sends events to a server. Requests and retries end with ctx.
type hook struct {
	*hookutil.GenericWebhook
	ctx    context.Context
	losses losses
}

func newHook(ctx context.Context, cfg Webhook, log *slog.Logger) (*hook, error) {
	client, err := hookutil.LoadKubeconfig(cfg.ConfigFile, nil)
	if err != nil {
		return nil, err
	}
	client.Wrap(bounded.Wrap)
	generic, err := hookutil.NewGenericWebhook(audit.Scheme, audit.Codecs, client,
		[]schema.GroupVersion{auditv1.SchemeGroupVersion},
		hookutil.DefaultRetryBackoffWithInitialDelay(cfg.InitialBackoff))
	if err != nil {
		return nil, err
	}
	return hookOf(ctx, generic, log), nil
}

func hookOf(ctx context.Context, generic *hookutil.GenericWebhook, log *slog.Logger) *hook {
	generic.ShouldRetry = func(err error) bool { return err != nil && ctx.Err() == nil }
	return &hook{GenericWebhook: generic, ctx: ctx, losses: losses{of: "audit webhook", log: log}}
}

// ProcessEvents sends one batch. It implements audit.Sink.
func (h *hook) ProcessEvents(events ...*auditinternal.Event) bool {
	var list auditinternal.EventList
	for _, e := range events {
		list.Items = append(list.Items, *e)
	}
	err := h.WithExponentialBackoff(h.ctx, func() rest.Result {
		return h.RestClient.Post().Body(&list).Do(h.ctx)
	}).Error()
	h.losses.note(len(events), err)
	if err != nil {
		audit.HandlePluginError(h.String(), err, events...)
	}
	return err == nil
}

// Run and Shutdown implement audit.Backend.
func (h *hook) Run(<-chan struct{}) error { return nil }
func (h *hook) Shutdown()                 {}

func (h *hook) String() string { return webhook.PluginName }
