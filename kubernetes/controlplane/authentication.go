package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/authn"
	"kelson.dev/kubernetes/tokens"
)

// Authentication says who is known over the network, beside holders of client certificates of Config.ClientCAs and service accounts.
// The zero value adds nobody, and lets others in as anonymous.
type Authentication struct {
	// Config names the mechanisms. ClientCAs, ServiceAccounts, BootstrapTokens, OwnIssuers, Audiences and Log are the control
	// plane's to fill in.
	authn.Config
	// AcceptBootstrapTokens makes the Secrets of bootstrap tokens in kube-system count.
	AcceptBootstrapTokens bool
}

// newAuthenticator makes what knows callers, and gives what issues the tokens by which it knows service accounts. What it starts ends
// with ctx.
func (p *ControlPlane) newAuthenticator(ctx context.Context, cfg Config) (*tokens.Issuer, error) {
	accounts := cfg.ServiceAccounts
	issuer, err := tokens.New(tokens.Config{
		Store: p.store, Key: accounts.Key, Keys: accounts.Keys, Issuers: accounts.Issuers, Audiences: accounts.Audiences,
		KeySetURL: accounts.KeySetURL, NoLookup: accounts.NoLookup, NoExtension: accounts.NoExtension, MaxLifetime: accounts.MaxLifetime,
		Patch: p.patchSecret,
	})
	if err != nil {
		return nil, err
	}
	all := cfg.Authentication.Config
	all.ClientCAs, all.ServiceAccounts, all.OwnIssuers, all.Audiences, all.Log = cfg.ClientCAs, issuer, issuer.Issuers(), issuer.Audiences(), cfg.Log
	if cfg.Authentication.AcceptBootstrapTokens {
		all.BootstrapTokens = tokens.Bootstrap(p.store)
	}
	if p.identify, err = authn.New(ctx, all); err != nil {
		return nil, fmt.Errorf("make authenticators: %w", err)
	}
	return issuer, nil
}

// patchSecret merges a patch into a Secret, as an administrator.
func (p *ControlPlane) patchSecret(ctx context.Context, namespace, name string, patch []byte) error {
	url := "http://kelson.in-process/api/v1/namespaces/" + namespace + "/secrets/" + name
	req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPatch, url, bytes.NewReader(patch))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", string(types.MergePatchType))
	resp, err := p.Transport().RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // the status alone says enough
		return fmt.Errorf("patch secret: %s: %s", resp.Status, answer)
	}
	return nil
}
