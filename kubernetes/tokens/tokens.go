// Package tokens makes and checks the bearer tokens of service accounts: signed JWTs that name the account, its uid and what else the
// token is bound to.
//
// A token counts as long as it has not expired and everything it names still exists with the same uid: each check looks into the
// store, nothing is remembered, so a token ends with the deletion of its account. The tokens of old, which never expire and are kept
// in Secrets of type kubernetes.io/service-account-token, end with their Secret too. Signing, claims and checks are Kubernetes' own.
// An [Issuer] never changes and is safe for concurrent use.
//
//	issuer, err := tokens.New(tokens.Config{Store: st})
//	builtin.Resources(builtin.Config{Tokens: issuer, …})              // serviceaccounts/token
//	authn.New(ctx, authn.Config{ServiceAccounts: issuer, …})          // Authorization: Bearer …
//	maps.Copy(paths, issuer.Discovery())                              // /.well-known/openid-configuration
//
// [Bootstrap] checks the tokens with which new nodes introduce themselves.
package tokens

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	names "k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/token/jwt"
	"k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"kelson.dev/apiserver/store"
)

// DefaultIssuer is the issuer where the Config names none: the API server as pods know it.
const DefaultIssuer = "https://kubernetes.default.svc.cluster.local"

// Config says how tokens are signed and which are accepted.
type Config struct {
	// Store has the objects that tokens are bound to.
	Store *store.Store
	// Key signs: an RSA key, or an ECDSA key on P-256, P-384 or P-521. nil makes one that lives as long as the Issuer.
	Key crypto.Signer
	// Keys are public keys whose tokens are accepted besides those of Key, for as long as a key is being replaced.
	Keys []crypto.PublicKey
	// Issuers are the accepted issuers; the first is written into tokens. None: DefaultIssuer.
	Issuers []string
	// Audiences are the names under which this server is addressed; a token for none of them is refused here. None: the issuers.
	Audiences []string
	// KeySetURL is where the discovery document says the keys are; "": below the first issuer.
	KeySetURL string
	// NoLookup accepts tokens of old without looking for their Secret and account.
	NoLookup bool
	// NoExtension lets the tokens that pods are given by default end when they were asked to.
	NoExtension bool
	// MaxLifetime is the longest that can be asked for; 0: any.
	MaxLifetime time.Duration
	// Patch merges into a Secret which day its token was last used, with the rights of the server; nil: nobody is interested.
	Patch func(ctx context.Context, namespace, secret string, patch []byte) error
}

// Issuer makes and checks tokens.
type Issuer struct {
	authenticator.Token
	generator serviceaccount.TokenGenerator
	legacy    serviceaccount.TokenGenerator
	cfg       Config
	keys      serviceaccount.PublicKeysGetter
}

// New returns an Issuer. A key that can't sign tokens is an error.
func New(cfg Config) (*Issuer, error) {
	if cfg.Store == nil {
		return nil, errors.New("make token issuer: no store")
	}
	if cfg.Key == nil {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("make token key: %w", err)
		}
		cfg.Key = key
	}
	if len(cfg.Issuers) == 0 {
		cfg.Issuers = []string{DefaultIssuer}
	}
	if len(cfg.Audiences) == 0 {
		cfg.Audiences = cfg.Issuers
	}
	serviceaccount.RegisterMetrics()
	generator, err := serviceaccount.JWTTokenGenerator(cfg.Issuers[0], cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("make token issuer: %w", err)
	}
	legacy, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("make token issuer: %w", err)
	}
	accepted := []any{cfg.Key.Public()}
	for _, key := range cfg.Keys {
		if own, ok := cfg.Key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !own.Equal(key) { // the public half is often given too
			accepted = append(accepted, key)
		}
	}
	keys, err := serviceaccount.StaticPublicKeysGetter(accepted)
	if err != nil {
		return nil, fmt.Errorf("read token keys: %w", err)
	}
	objects := lookup{cfg.Store}
	old, err := serviceaccount.NewLegacyValidator(!cfg.NoLookup, wholeLookup{objects}, marker{cfg.Patch})
	if err != nil {
		return nil, fmt.Errorf("make token checks: %w", err)
	}
	return &Issuer{
		Token: union.New(
			serviceaccount.JWTTokenAuthenticator(cfg.Issuers, keys, cfg.Audiences, serviceaccount.NewValidator(objects)),
			serviceaccount.JWTTokenAuthenticator([]string{serviceaccount.LegacyIssuer}, keys, cfg.Audiences, old),
		),
		generator: generator,
		legacy:    legacy,
		cfg:       cfg,
		keys:      keys,
	}, nil
}

// Audiences are the names of this server, which a token is for that is asked for without naming any.
func (i *Issuer) Audiences() []string { return slices.Clone(i.cfg.Audiences) }

// Issuers are the accepted issuers, of which the first is written into tokens.
func (i *Issuer) Issuers() []string { return slices.Clone(i.cfg.Issuers) }

// MaxLifetime is the longest lifetime that can be asked for; 0: any.
func (i *Issuer) MaxLifetime() time.Duration { return i.cfg.MaxLifetime }

// Bound are the objects that a token ends with, besides its account: a pod, perhaps with the node it runs on, a secret, or a node.
type Bound struct {
	Pod    *core.Pod
	Secret *core.Secret
	Node   *core.Node
}

// extended is how long a token lives that a pod is given by default, so that programs which never read it anew go on for a while;
// after the time that was asked for its use is counted as stale.
const extended = serviceaccount.ExpirationExtensionSeconds

// Issue signs a token of an account, for audiences, that ends lifetime from now (in whole seconds).
func (i *Issuer) Issue(ctx context.Context, account *core.ServiceAccount, bound Bound, audiences []string, lifetime time.Duration) (string, error) {
	seconds, warnAfter := int64(lifetime/time.Second), int64(0)
	if !i.cfg.NoExtension && bound.Pod != nil && seconds == serviceaccount.WarnOnlyBoundTokenExpirationSeconds && i.ours(audiences) {
		seconds, warnAfter = extended, seconds
	}
	claims, private, err := serviceaccount.Claims(*account, bound.Pod, bound.Secret, bound.Node, nil, nil, seconds, warnAfter, audiences, nil)
	if err != nil {
		return "", fmt.Errorf("make token: %w", err)
	}
	token, err := i.generator.GenerateToken(ctx, claims, private)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	audit.AddAuditAnnotation(ctx, names.IssuedCredentialIDAuditAnnotationKey, jwt.CredentialIDForJTI(claims.ID))
	return token, nil
}

// IssueSecret signs a token of old: it is kept in a Secret and never expires.
func (i *Issuer) IssueSecret(ctx context.Context, account *corev1.ServiceAccount, secret *corev1.Secret) (string, error) {
	claims, private := serviceaccount.LegacyClaims(*account, *secret)
	token, err := i.legacy.GenerateToken(ctx, claims, private)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	return token, nil
}

// ours says whether audiences are all names of this server.
func (i *Issuer) ours(audiences []string) bool {
	return !slices.ContainsFunc(audiences, func(a string) bool { return !slices.Contains(i.cfg.Audiences, a) })
}
