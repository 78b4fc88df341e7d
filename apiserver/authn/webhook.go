package authn

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	hookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"

	"kelson.dev/apiserver/bounded"
)

// Webhook configures a server that authenticates tokens with TokenReviews.
type Webhook struct {
	// ConfigFile is a kubeconfig of the server.
	ConfigFile string
	// Version is the version of TokenReviews: v1 or v1beta1; "" means v1beta1, as in
	// kube-apiserver.
	Version string
	// TTL is how long responses are cached; 0 disables the cache.
	TTL time.Duration
}

// authenticator checks the configuration. The returned authenticator creates its client at the
// first token.
func (h *Webhook) authenticator(audiences authenticator.Audiences) (authenticator.Token, error) {
	version := h.Version
	switch version {
	case "":
		version = "v1beta1"
	case "v1", "v1beta1":
	default:
		return nil, fmt.Errorf("unsupported webhook version %q, supported versions are v1, v1beta1", version)
	}
	config, err := hookutil.LoadKubeconfig(h.ConfigFile, nil)
	if err != nil {
		return nil, err
	}
	config.Wrap(bounded.Wrap)
	backoff := wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
	client := sync.OnceValues(func() (authenticator.Token, error) {
		hook, err := webhook.New(config, version, audiences, backoff)
		if err != nil || h.TTL <= 0 {
			return hook, err
		}
		return cache.New(hook, false, h.TTL, h.TTL), nil
	})
	return authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
		hook, err := client()
		if err != nil {
			return nil, false, fmt.Errorf("create client of token webhook: %w", err)
		}
		return hook.AuthenticateToken(ctx, token)
	}), nil
}
