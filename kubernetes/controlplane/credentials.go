package controlplane

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/kubernetes/controllers/certificates"
	"kelson.dev/kubernetes/controllers/tokens"
	issuer "kelson.dev/kubernetes/tokens"
	"kelson.dev/operator/client"
)

// startCredentials starts the controllers of credentials: tokens in Secrets and certificates.
func (p *ControlPlane) startCredentials(ctx context.Context, parts *parts, cfg Config, c client.Client, issue *issuer.Issuer, authorizer authorizer.UnconditionalAuthorizer) {
	if cfg.Controllers.Runs(tokenNames[0]) {
		parts.run(ctx, "tokens in secrets", tokens.New(tokens.Config{
			Store: p.store, Client: c, Issue: issue.IssueSecret, Uses: issuer.Uses, RootCA: cfg.RootCA, Log: cfg.Log,
		}).Run)
	}
	if !cfg.Controllers.Runs(certificateNames[0]) {
		return
	}
	requests := certificates.Config{Store: p.store, Client: c, Authorizer: authorizer, ApproveServing: cfg.Authentication.AcceptBootstrapTokens, Log: cfg.Log}
	if cfg.Authority != nil {
		requests.Authority, requests.Key = cfg.Authority.Certificate, cfg.Authority.Key()
	}
	parts.run(ctx, "certificates", certificates.New(requests).Run)
}
