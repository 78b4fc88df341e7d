package controlplane

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/kubernetes/controllers/certificates"
	"kelson.dev/kubernetes/controllers/tokens"
	"kelson.dev/kubernetes/identity"
	issuer "kelson.dev/kubernetes/tokens"
)

// startCredentials starts the controllers of credentials: tokens in Secrets and certificates.
func (p *ControlPlane) startCredentials(ctx context.Context, parts *parts, cfg Config, as *controllerClients,
	issue *issuer.Issuer, authorizer authorizer.UnconditionalAuthorizer) {
	if cfg.selects(tokenNames[0]) {
		parts.run(ctx, "tokens in secrets", tokens.New(tokens.Config{
			Store: p.store, Client: as.manager(), Bootstrap: as.controller("token-cleaner"),
			Unused: as.controller("legacy-service-account-token-cleaner"),
			Server: as.server, Issue: issue.IssueSecret, Uses: issuer.Uses, RootCA: cfg.RootCA, Log: cfg.Log,
		}).Run)
	}
	if !cfg.selects(certificateNames[0]) {
		return
	}
	requests := certificates.Config{
		Store: p.store, Client: as.controller("certificate-controller"),
		PodRequests: as.controller("podcertificaterequestcleaner"),
		Authorizer:  authorizer, ApproveServing: cfg.Authentication.AcceptBootstrapTokens, Log: cfg.Log,
	}
	if requests.ApproveServing {
		requests.Serving = as.controller(identity.ServingApprover)
	}
	if cfg.Authority != nil {
		requests.Authority, requests.Key = cfg.Authority.Certificate, cfg.Authority.Key()
	}
	parts.run(ctx, "certificates", certificates.New(requests).Run)
}
