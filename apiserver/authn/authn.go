// Package authn authenticates requests that come over the network.
//
// It uses Kubernetes' own authenticator interfaces. [New] returns one authenticator with all
// mechanisms of kube-apiserver, in the same order:
//
//	request headers of an authenticating proxy
//	client certificates
//	bearer tokens, in a header or in the subprotocol of a WebSocket:
//	    Config.Tokens → token file → service accounts → bootstrap tokens → OpenID Connect → webhook
//	anonymous, if allowed and the request has no credential
//
// The first mechanism that accepts a credential decides. A request whose credential no mechanism
// accepts gets 401; it does not become anonymous.
//
// Files are reloaded when they change (package filewatch). Clients of other servers (OpenID Connect
// issuers, the webhook) are created when the first token reaches them. Authenticators are safe for
// concurrent use. Their only goroutines fetch the keys of issuers and end with the context given to
// New.
//
//	auth, err := authn.New(ctx, authn.Config{ClientCAFile: "ca.crt", TokenFile: "tokens.csv"})
//	filters.New(filters.Config{Authenticator: auth, …})
package authn

import (
	"context"
	stdx509 "crypto/x509"
	"errors"
	"log/slog"
	"net/http"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/internal/clientcert"
)

// Config lists the accepted credentials. With the zero value, every request without a credential is
// anonymous and every credential is ignored.
type Config struct {
	// ClientCAs and ClientCAFile hold the authorities of client certificates. The common name of a
	// certificate is the user, its organizations are the groups. nil and "" disable client
	// certificates.
	ClientCAs    *stdx509.CertPool
	ClientCAFile string
	// RequestHeader accepts the headers of an authenticating proxy. nil disables it.
	RequestHeader *RequestHeader
	// TokenFile is a CSV file of "token,user,uid,groups". "" disables it.
	TokenFile string
	// Tokens maps fixed bearer tokens to their users.
	Tokens map[string]*user.DefaultInfo
	// ServiceAccounts and BootstrapTokens authenticate tokens of these kinds. nil disables them.
	ServiceAccounts authenticator.Token
	BootstrapTokens authenticator.Token
	// OIDC accepts the tokens of one OpenID Connect issuer. nil disables it. It excludes
	// ConfigFile.
	OIDC *OIDC
	// ConfigFile is an AuthenticationConfiguration file: issuers, and conditions for anonymous
	// requests. "" means none.
	ConfigFile string
	// OwnIssuers are the issuers of service account tokens. The configuration must not name them.
	OwnIssuers []string
	// Webhook configures another server that reviews tokens. nil disables it.
	Webhook *Webhook
	// Anonymous reports whether requests without a credential are accepted as system:anonymous. nil
	// means yes, unless ConfigFile restricts it.
	Anonymous *bool
	// Audiences are the names of this server. Tokens without audiences have these audiences.
	Audiences authenticator.Audiences
	// Log receives errors of files that changed and cannot be used. nil discards them.
	Log *slog.Logger
}

// Authenticator authenticates requests with all mechanisms of a Config.
type Authenticator struct {
	request   authenticator.Request
	clients   *authorities // nil: client certificates are disabled
	proxies   *authorities
	header    RequestHeader // zero if proxies is nil
	audiences authenticator.Audiences
}

// New returns an authenticator with all mechanisms in cfg. It returns an error if a file cannot be
// used or settings contradict each other. Fetching the keys of issuers ends with ctx.
func New(ctx context.Context, cfg Config) (*Authenticator, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	a := &Authenticator{audiences: cfg.Audiences}
	var all []authenticator.Request
	var err error
	if a.clients, err = newAuthorities(cfg.ClientCAs, cfg.ClientCAFile, cfg.Log); err != nil {
		return nil, flagError("client-ca-file", err)
	}
	if cfg.RequestHeader != nil {
		if a.proxies, err = cfg.RequestHeader.authorities(a.clients, cfg.Log); err != nil {
			return nil, err
		}
		a.header = *cfg.RequestHeader
		proxies := cfg.RequestHeader.authenticator(a.proxies, a.clients != nil)
		all = append(all, authenticator.WrapAudienceAgnosticRequest(cfg.Audiences, proxies))
	}
	if a.clients != nil {
		all = append(all, clientcert.Users(a.clients.verifyOptions))
	}
	tokens, anonymousConfig, err := newTokens(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if len(tokens) > 0 {
		token := tokenunion.New(tokens...)
		all = append(all, bearertoken.New(token), websocket.NewProtocolAuthenticator(token))
	}
	a.request = group.NewAuthenticatedGroupAdder(union.New(all...))
	if anonymousConfig.Enabled {
		a.request = union.NewFailOnError(a.request, anonymous.NewAuthenticator(anonymousConfig.Conditions))
	}
	return a, nil
}

// newTokens returns the authenticators of bearer tokens in their order, and the configuration of
// anonymous requests, which the configuration file of issuers can contain.
func newTokens(ctx context.Context, cfg Config) (
	all []authenticator.Token, anonymousConfig apiserver.AnonymousAuthConfig, err error) {
	add := func(token authenticator.Token) {
		all = append(all, authenticator.WrapAudienceAgnosticToken(cfg.Audiences, token))
	}
	if len(cfg.Tokens) > 0 {
		add(newStaticTokens(cfg.Tokens))
	}
	if cfg.TokenFile != "" {
		file, err := newTokenFile(cfg.TokenFile, cfg.Log)
		if err != nil {
			return nil, anonymousConfig, flagError("token-auth-file", err)
		}
		add(file)
	}
	if cfg.ServiceAccounts != nil {
		all = append(all, cfg.ServiceAccounts) // it checks audiences itself
	}
	if cfg.BootstrapTokens != nil {
		add(cfg.BootstrapTokens)
	}
	issuers, anonymousConfig, err := newIssuers(ctx, cfg)
	if err != nil {
		return nil, anonymousConfig, err
	}
	if issuers != nil {
		add(issuers)
	}
	if cfg.Webhook != nil {
		hook, err := cfg.Webhook.authenticator(cfg.Audiences)
		if err != nil {
			return nil, anonymousConfig, flagError("authentication-token-webhook-config-file", err)
		}
		all = append(all, hook)
	}
	return all, anonymousConfig, nil
}

// AuthenticateRequest implements authenticator.Request. It returns false without an error if the
// request has no credential and anonymous requests are not allowed. It deletes headers with
// credentials from accepted requests, so that later handlers cannot use or forward them.
func (a *Authenticator) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	resp, ok, err := a.request.AuthenticateRequest(req)
	if err != nil || !ok {
		return nil, false, err
	}
	if want, limited := authenticator.AudiencesFrom(req.Context()); limited && len(want) > 0 &&
		len(resp.Audiences) > 0 &&
		len(want.Intersect(resp.Audiences)) == 0 {
		return nil, false, errors.New("the credential is for another audience")
	}
	deleteCredentials(req.Header)
	return resp, true, nil
}

// Audiences returns the names of this server.
func (a *Authenticator) Audiences() authenticator.Audiences { return a.audiences }

// ClientCAs returns the authorities that the TLS handshake announces to clients, including those of
// proxies; nil means none. It is cheap and returns the same pool until a file changes.
func (a *Authenticator) ClientCAs() *stdx509.CertPool {
	switch {
	case a.clients == nil && a.proxies == nil:
		return nil
	case a.proxies == nil:
		return a.clients.current().pool
	case a.clients == nil:
		return a.proxies.current().pool
	}
	return a.proxies.joined(a.clients)
}
