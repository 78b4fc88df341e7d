package authz

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/cel"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"

	"kelson.dev/apiserver/bounded"
	"kelson.dev/apiserver/flowcontrol"
	"kelson.dev/apiserver/internal/turn"
)

// newWebhook returns the authorizer that sends SubjectAccessReviews to a server.
func newWebhook(name string, c *apiserver.WebhookConfiguration) (Authorizer, error) {
	file := c.ConnectionInfo.KubeConfigFile
	if file == nil {
		return nil, errors.New("webhook authorizer: kubeConfigFile is required")
	}
	client, err := webhookutil.LoadKubeconfig(*file, nil)
	if err != nil {
		return nil, err
	}
	client.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return turn.Transport{RoundTripper: bounded.Wrap(rt)}
	})
	if c.Timeout.Duration != 0 {
		client.Timeout = c.Timeout.Duration
	}
	var onError authorizer.Decision
	switch c.FailurePolicy {
	case apiserver.FailurePolicyNoOpinion:
		onError = authorizer.DecisionNoOpinion
	case apiserver.FailurePolicyDeny:
		onError = authorizer.DecisionDeny
	default:
		return nil, fmt.Errorf("unknown failurePolicy %q", c.FailurePolicy)
	}
	allowed, denied := c.AuthorizedTTL.Duration, c.UnauthorizedTTL.Duration
	if !c.CacheAuthorizedRequests {
		allowed = 0
	}
	if !c.CacheUnauthorizedRequests {
		denied = 0
	}
	hook, err := webhook.New(client, c.SubjectAccessReviewVersion, allowed, denied, *webhook.DefaultRetryBackoff(),
		onError, c.MatchConditions, name,
		metrics.NoopAuthorizerMetrics{}, cel.NewDefaultCompiler())
	if err != nil {
		return nil, err
	}
	return waiting{hook}, nil
}

// waiting releases the seats of a request while it waits for a webhook. Otherwise, requests that
// only a slow webhook can decide would keep other users waiting.
type waiting struct{ Authorizer }

func (w waiting) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	defer flowcontrol.Wait(ctx)()
	return w.Authorizer.Authorize(ctx, a)
}

func (w waiting) ConditionsAwareAuthorize(ctx context.Context,
	a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(w.Authorize(ctx, a))
}
