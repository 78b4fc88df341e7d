// Package authn finds out who makes a request that comes over the network.
//
// An authenticator is Kubernetes' own interface. [New] makes one of all the mechanisms of kube-apiserver, in its order:
//
//	request headers of an authenticating proxy
//	client certificates
//	bearer tokens (a header, or the subprotocol of a WebSocket):
//	    tokens known from the start → the token file → service accounts → bootstrap tokens → OpenID Connect → a webhook
//	nobody: anonymous, where that is allowed
//
// The first that accepts wins. A credential that none accepts is an error, which is a 401: it never makes a request anonymous.
//
// What comes from files is read anew when they change (package livefile). What needs the network (OpenID Connect, the webhook) is
// made with the first token that gets so far. Authenticators are safe for concurrent use; they start nothing but what fetches the
// keys of issuers, and that ends with the context given to New.
//
//	auth, err := authn.New(ctx, authn.Config{ClientCAFile: "ca.crt", TokenFile: "tokens.csv"})
//	chain.New(chain.Config{Authenticator: auth, …})
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
	"k8s.io/apiserver/pkg/authentication/request/x509"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Config says which credentials count. The zero value knows nobody: everybody is anonymous.
type Config struct {
	// ClientCAs and the certificates of ClientCAFile are the authorities of client certificates: the common name is the user,
	// organizations are groups. nil and "": none.
	ClientCAs    *stdx509.CertPool
	ClientCAFile string
	// RequestHeader believes the headers of an authenticating proxy; nil: none.
	RequestHeader *RequestHeader
	// TokenFile is a CSV file of "token,user,uid,groups". "": none.
	TokenFile string
	// Tokens are bearer tokens that are known from the start, with their users. Empty: none.
	Tokens map[string]*user.DefaultInfo
	// ServiceAccounts and BootstrapTokens check such tokens; nil: there are none.
	ServiceAccounts authenticator.Token
	BootstrapTokens authenticator.Token
	// OIDC believes the tokens of one OpenID Connect issuer; nil: of none. It excludes a ConfigFile with issuers.
	OIDC *OIDC
	// ConfigFile is an AuthenticationConfiguration: issuers, and who may be anonymous where. "": none.
	ConfigFile string
	// OwnIssuers are the issuers of service account tokens, which nobody else may be.
	OwnIssuers []string
	// Webhook asks another server about tokens; nil: none.
	Webhook *Webhook
	// Anonymous says whether requests without a credential are let in as system:anonymous. nil: yes, and ConfigFile may say
	// otherwise.
	Anonymous *bool
	// Audiences are the names of this server, which tokens that know no audience are good for.
	Audiences authenticator.Audiences
	// Log hears of files that changed and can't be used; nil: nobody.
	Log *slog.Logger
}

// Authenticator is what New makes.
type Authenticator struct {
	request   authenticator.Request
	clients   *authorities // nil: none
	proxies   *authorities
	header    RequestHeader // of proxies, if there are any
	audiences authenticator.Audiences
}

// New returns an authenticator of all the mechanisms in cfg. What is wrong in a file, and what does not go together, is an error.
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
		all = append(all, authenticator.WrapAudienceAgnosticRequest(cfg.Audiences, cfg.RequestHeader.authenticator(a.proxies)))
	}
	if a.clients != nil {
		certificates := x509.NewDynamic(a.clients.verifyOptions, x509.CommonNameUserConversion)
		all = append(all, &verified{verify: group.NewAuthenticatedGroupAdder(certificates), authorities: a.clients.current})
	}
	tokens, nobody, err := newTokens(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if len(tokens) > 0 {
		token := tokenunion.New(tokens...)
		all = append(all, bearertoken.New(token), websocket.NewProtocolAuthenticator(token))
	}
	a.request = group.NewAuthenticatedGroupAdder(union.New(all...))
	if nobody.Enabled {
		a.request = union.NewFailOnError(a.request, anonymous.NewAuthenticator(nobody.Conditions))
	}
	return a, nil
}

// newTokens makes what checks bearer tokens, in order, and says who may be anonymous: the file that names issuers may say that too.
func newTokens(ctx context.Context, cfg Config) (all []authenticator.Token, nobody apiserver.AnonymousAuthConfig, err error) {
	add := func(token authenticator.Token) {
		all = append(all, authenticator.WrapAudienceAgnosticToken(cfg.Audiences, token))
	}
	if len(cfg.Tokens) > 0 {
		add(newStaticTokens(cfg.Tokens))
	}
	if cfg.TokenFile != "" {
		file, err := newTokenFile(cfg.TokenFile, cfg.Log)
		if err != nil {
			return nil, nobody, flagError("token-auth-file", err)
		}
		add(file)
	}
	if cfg.ServiceAccounts != nil {
		all = append(all, cfg.ServiceAccounts) // it knows its audiences
	}
	if cfg.BootstrapTokens != nil {
		add(cfg.BootstrapTokens)
	}
	issuers, nobody, err := newIssuers(ctx, cfg)
	if err != nil {
		return nil, nobody, err
	}
	if issuers != nil {
		add(issuers)
	}
	if cfg.Webhook != nil {
		hook, err := cfg.Webhook.authenticator(cfg.Audiences)
		if err != nil {
			return nil, nobody, flagError("authentication-token-webhook-config-file", err)
		}
		all = append(all, hook)
	}
	return all, nobody, nil
}

// AuthenticateRequest implements Kubernetes' interface. It is not ok, without an error, if nobody may be anonymous here. Headers that
// held credentials are deleted from a request that is accepted: they are for nobody else.
func (a *Authenticator) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	resp, ok, err := a.request.AuthenticateRequest(req)
	if err != nil || !ok {
		return nil, false, err
	}
	if want, limited := authenticator.AudiencesFrom(req.Context()); limited && len(want) > 0 && len(resp.Audiences) > 0 &&
		len(want.Intersect(resp.Audiences)) == 0 {
		return nil, false, errors.New("the credential is for another audience")
	}
	forget(req.Header)
	return resp, true, nil
}

// Audiences are the names of this server.
func (a *Authenticator) Audiences() authenticator.Audiences { return a.audiences }

// ClientCAs are the authorities that clients are told to have certificates of, proxies included; nil: any. It is cheap, and the same
// pool for as long as nothing changes.
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
