package controlplane

import (
	"fmt"

	"k8s.io/apiserver/pkg/authentication/authenticator"

	"kelson.dev/server/authn"
	"kelson.dev/server/builtin/tokens"
)

// Authentication says who is known, beside holders of client certificates and service accounts. The zero value adds nobody.
type Authentication struct {
	// TokenFile is a CSV file of "token,user,uid,groups", read once. "": none.
	TokenFile string
}

// newAuthenticator makes what knows callers, and what issues the tokens by which it knows service accounts.
func (p *ControlPlane) newAuthenticator(cfg Config) (*tokens.Issuer, authn.Authenticator, error) {
	issuer, err := tokens.New(tokens.Config{
		Store: p.store, Key: cfg.ServiceAccounts.Key, Keys: cfg.ServiceAccounts.Keys,
		Issuers: cfg.ServiceAccounts.Issuers, Audiences: cfg.ServiceAccounts.Audiences,
	})
	if err != nil {
		return nil, nil, err
	}
	identify, err := authn.New(authn.Config{
		ClientCAs: cfg.ClientCAs, TokenFile: cfg.Authentication.TokenFile, Tokens: []authenticator.Token{issuer},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("make authenticators: %w", err)
	}
	return issuer, identify, nil
}
