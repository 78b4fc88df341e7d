package authz

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/cel"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"

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
	client.Wrap(func(rt http.RoundTripper) http.RoundTripper { return turn.Transport{RoundTripper: rt} })
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
	return webhook.New(client, c.SubjectAccessReviewVersion, allowed, denied, *webhook.DefaultRetryBackoff(), onError, c.MatchConditions, name,
		metrics.NoopAuthorizerMetrics{}, cel.NewDefaultCompiler())
}
