package controlplane

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/operator/client"
	"kelson.dev/server/builtin/certificates"
	issuer "kelson.dev/server/builtin/tokens"
	"kelson.dev/server/controllers/tokens"
)

// startCredentials starts the controllers of what authenticates: tokens in Secrets, and certificates.
func (p *ControlPlane) startCredentials(ctx context.Context, parts *parts, cfg Config, issue *issuer.Issuer, may authorizer.UnconditionalAuthorizer) error {
	if cfg.NoControllers {
		return nil
	}
	own, err := client.New(client.Config{REST: p.RESTConfig(), FieldOwner: "kelson-controllers"})
	if err != nil {
		return fmt.Errorf("make the client of controllers: %w", err)
	}
	parts.run(ctx, "tokens in secrets", tokens.New(tokens.Config{
		Store: p.store, Client: own, Issue: issue.IssueSecret, RootCA: cfg.RootCA, Log: cfg.Log,
	}).Run)
	requests := certificates.Config{Store: p.store, Client: own, Authorizer: may, Log: cfg.Log}
	if cfg.Authority != nil {
		requests.Authority, requests.Key = cfg.Authority.Certificate, cfg.Authority.Key()
	}
	parts.run(ctx, "certificates", certificates.New(requests).Run)
	return nil
}
