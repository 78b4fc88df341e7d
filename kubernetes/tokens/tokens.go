// Package tokens issues and verifies the bearer tokens of service accounts: signed JWTs with the
// account, its uid, and the other objects that the token is bound to.
//
// A token is valid until it expires, as long as all objects in it exist with the same uid. Every
// verification reads the store and nothing is cached, so a token becomes invalid with the deletion
// of its account. Legacy tokens, which never expire and are stored in Secrets of type
// kubernetes.io/service-account-token, also become invalid with their Secret. Signing, claims and
// validation are Kubernetes' own. An [Issuer] is immutable and safe for concurrent use.
//
//	issuer, err := tokens.New(tokens.Config{Store: st})
//	builtin.Resources(builtin.Config{Tokens: issuer, …})              // serviceaccounts/token
//	authn.New(ctx, authn.Config{ServiceAccounts: issuer, …})          // Authorization: Bearer …
//	maps.Copy(paths, issuer.Discovery())                              // /.well-known/openid-configuration
//
// [Bootstrap] authenticates the tokens with which new nodes join.
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

// DefaultIssuer is the default issuer: the API server's address in the cluster.
const DefaultIssuer = "https://kubernetes.default.svc.cluster.local"

// Config configures an Issuer.
type Config struct {
	// Store has the objects that tokens are bound to. Required.
	Store *store.Store
	// Key signs tokens: an RSA key, or an ECDSA key on P-256, P-384 or P-521. If nil, New generates
	// one.
	Key crypto.Signer
	// Keys verify tokens in addition to Key, for example during a key rotation.
	Keys []crypto.PublicKey
	// Issuers are the accepted issuers. The first one is written into new tokens; none means
	// DefaultIssuer.
	Issuers []string
	// Audiences identify this server. Tokens for other audiences only are rejected. None means the
	// issuers.
	Audiences []string
	// KeySetURL is the URL of the keys in the discovery document; "" means a URL below the first
	// issuer.
	KeySetURL string
	// NoLookup accepts legacy tokens without checking that their Secret and account exist.
	NoLookup bool
	// NoExtension makes the tokens mounted into pods by default expire at the requested time.
	NoExtension bool
	// MaxLifetime is the longest lifetime that clients can request; 0 means unlimited.
	MaxLifetime time.Duration
	// Patch merges the day of a token's last use into its Secret, with the server's rights. If nil,
	// the use is not recorded.
	Patch func(ctx context.Context, namespace, secret string, patch []byte) error
}

// Issuer issues and verifies tokens.
type Issuer struct {
	authenticator.Token
	generator serviceaccount.TokenGenerator
	legacy    serviceaccount.TokenGenerator
	cfg       Config
	keys      serviceaccount.PublicKeysGetter
}

// New returns an Issuer, or an error if a key can't sign or verify tokens.
func New(cfg Config) (*Issuer, error) {
	if cfg.Store == nil {
		return nil, errors.New("create token issuer: Store is nil")
	}
	if cfg.Key == nil {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("generate token key: %w", err)
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
		return nil, fmt.Errorf("create token issuer: %w", err)
	}
	legacy, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("create token issuer: %w", err)
	}
	accepted := []any{cfg.Key.Public()}
	for _, key := range cfg.Keys {
		// Keys often also contains the public key of Key
		if own, ok := cfg.Key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !own.Equal(key) {
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
		return nil, fmt.Errorf("create token validator: %w", err)
	}
	return &Issuer{
		Token: union.New(
			serviceaccount.JWTTokenAuthenticator(cfg.Issuers, keys, cfg.Audiences,
				serviceaccount.NewValidator(objects)),
			serviceaccount.JWTTokenAuthenticator([]string{serviceaccount.LegacyIssuer}, keys, cfg.Audiences, old),
		),
		generator: generator,
		legacy:    legacy,
		cfg:       cfg,
		keys:      keys,
	}, nil
}

// Audiences returns the names of this server. They are the default audiences of requested tokens.
func (i *Issuer) Audiences() []string { return slices.Clone(i.cfg.Audiences) }

// Issuers returns the accepted issuers. The first one is written into new tokens.
func (i *Issuer) Issuers() []string { return slices.Clone(i.cfg.Issuers) }

// MaxLifetime returns the longest lifetime that clients can request; 0 means unlimited.
func (i *Issuer) MaxLifetime() time.Duration { return i.cfg.MaxLifetime }

// Bound has the objects, besides the account, whose deletion invalidates a token: a pod, perhaps
// with its node, a Secret, or a node.
type Bound struct {
	Pod    *core.Pod
	Secret *core.Secret
	Node   *core.Node
}

// extended is the lifetime, in seconds, of tokens that are mounted into pods by default. It gives
// programs that never reload the token more time; after the requested lifetime, uses are counted as
// stale.
const extended = serviceaccount.ExpirationExtensionSeconds

// Issue signs a token of an account for audiences. It expires after lifetime, which is truncated to
// seconds.
func (i *Issuer) Issue(ctx context.Context, account *core.ServiceAccount, bound Bound, audiences []string,
	lifetime time.Duration) (string, error) {
	seconds, warnAfter := int64(lifetime/time.Second), int64(0)
	if !i.cfg.NoExtension && bound.Pod != nil && seconds == serviceaccount.WarnOnlyBoundTokenExpirationSeconds &&
		i.ownAudiences(audiences) {
		seconds, warnAfter = extended, seconds
	}
	claims, private, err := serviceaccount.Claims(*account, bound.Pod, bound.Secret, bound.Node, nil, nil, seconds,
		warnAfter, audiences, nil)
	if err != nil {
		return "", fmt.Errorf("create token: %w", err)
	}
	token, err := i.generator.GenerateToken(ctx, claims, private)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	audit.AddAuditAnnotation(ctx, names.IssuedCredentialIDAuditAnnotationKey, jwt.CredentialIDForJTI(claims.ID))
	return token, nil
}

// IssueSecret signs a legacy token, which is stored in a Secret and never expires.
func (i *Issuer) IssueSecret(ctx context.Context, account *corev1.ServiceAccount,
	secret *corev1.Secret) (string, error) {
	claims, private := serviceaccount.LegacyClaims(*account, *secret)
	token, err := i.legacy.GenerateToken(ctx, claims, private)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	return token, nil
}

// ownAudiences reports whether all audiences are names of this server.
func (i *Issuer) ownAudiences(audiences []string) bool {
	return !slices.ContainsFunc(audiences, func(a string) bool { return !slices.Contains(i.cfg.Audiences, a) })
}
