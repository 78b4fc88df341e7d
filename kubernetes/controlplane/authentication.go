package controlplane

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/authn"
	"kelson.dev/apiserver/inprocess"
	"kelson.dev/kubernetes/tokens"
)

// Authentication configures how requests from the network are authenticated, in addition to client
// certificates signed by Config.ClientCAs and service account tokens. The zero value adds no
// mechanism and treats other requests as anonymous.
type Authentication struct {
	// Config lists the mechanisms. The control plane sets ClientCAs, ServiceAccounts,
	// BootstrapTokens, OwnIssuers, Audiences and Log itself.
	authn.Config
	// AcceptBootstrapTokens accepts the bootstrap tokens in Secrets of kube-system, and approves
	// the serving certificates of kubelets for their own names and addresses.
	AcceptBootstrapTokens bool
}

// newAuthenticator sets p.identify and returns the issuer of service account tokens. Everything
// that it starts ends with ctx.
func (p *ControlPlane) newAuthenticator(ctx context.Context, cfg Config) (*tokens.Issuer, error) {
	accounts := cfg.ServiceAccounts
	issuer, err := tokens.New(tokens.Config{
		Store: p.store, Key: accounts.Key, Keys: accounts.Keys, Issuers: accounts.Issuers,
		Audiences: accounts.Audiences,
		KeySetURL: accounts.KeySetURL, NoLookup: accounts.NoLookup, NoExtension: accounts.NoExtension,
		MaxLifetime: accounts.MaxLifetime,
		Patch:       p.patchSecret,
	})
	if err != nil {
		return nil, err
	}
	all := cfg.Authentication.Config
	all.ClientCAs, all.ServiceAccounts, all.OwnIssuers, all.Audiences, all.Log = cfg.ClientCAs, issuer,
		issuer.Issuers(), issuer.Audiences(), cfg.Log
	if cfg.Authentication.AcceptBootstrapTokens {
		all.BootstrapTokens = tokens.Bootstrap(p.store)
	}
	if p.identify, err = authn.New(ctx, all); err != nil {
		return nil, fmt.Errorf("create authenticators: %w", err)
	}
	return issuer, nil
}

// patchSecret applies a merge patch to a Secret, as system:apiserver.
func (p *ControlPlane) patchSecret(ctx context.Context, namespace, name string, patch []byte) error {
	_, err := inprocess.Call{
		Method: http.MethodPatch, Path: "/api/v1/namespaces/" + namespace + "/secrets/" + name,
		Body: patch, ContentType: string(types.MergePatchType),
	}.Do(context.WithoutCancel(ctx), p.serverTransport())
	if err != nil {
		return fmt.Errorf("patch secret: %w", err)
	}
	return nil
}
