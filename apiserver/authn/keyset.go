package authn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/client-go/util/cert"
)

// keySet holds the keys of an issuer. The first token starts the discovery of their URL. The keys
// are fetched again when a token is signed with an unknown key.
type keySet struct {
	ctx    context.Context
	issuer string
	client *http.Client

	mu     sync.Mutex
	keys   oidc.KeySet // nil before the first successful discovery
	failed error       // error of the last discovery
	next   time.Time   // earliest time of the next discovery after a failed one
}

// rediscoveryInterval is the minimum time between a failed discovery and the next one. It limits
// the requests that clients can cause by sending tokens.
const rediscoveryInterval = time.Second

func newKeySet(ctx context.Context, issuer apiserver.Issuer) (*keySet, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if issuer.CertificateAuthority != "" {
		var err error
		if config.RootCAs, err = cert.NewPoolFromBytes([]byte(issuer.CertificateAuthority)); err != nil {
			return nil, fmt.Errorf("read certificate authority: %w", err)
		}
	}
	var transport http.RoundTripper = utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: config})
	if issuer.DiscoveryURL != "" {
		target, err := url.Parse(issuer.DiscoveryURL)
		if err != nil {
			return nil, fmt.Errorf("parse discovery URL: %w", err)
		}
		transport = discoveryRedirect{transport, strings.TrimSuffix(issuer.URL, "/") + "/.well-known/openid-configuration", target}
	}
	k := &keySet{issuer: issuer.URL, client: &http.Client{Transport: transport, Timeout: 30 * time.Second}}
	k.ctx = oidc.ClientContext(ctx, k.client)
	context.AfterFunc(ctx, k.client.CloseIdleConnections)
	return k, nil
}

// discoveryRedirect fetches the discovery document from another URL than the issuer's.
type discoveryRedirect struct {
	http.RoundTripper
	from string
	to   *url.URL
}

func (d discoveryRedirect) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet && req.URL.String() == d.from {
		req = req.Clone(req.Context())
		req.Host, req.URL = "", d.to
	}
	return d.RoundTripper.RoundTrip(req)
}

// CloseIdleConnections closes the idle connections of the transport. http.Client calls it.
func (d discoveryRedirect) CloseIdleConnections() {
	if t, ok := d.RoundTripper.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// VerifySignature implements [oidc.KeySet].
func (k *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	keys, err := k.discovered()
	if err != nil {
		return nil, fmt.Errorf("discover keys of issuer %s: %w", k.issuer, err)
	}
	return keys.VerifySignature(ctx, jwt)
}

func (k *keySet) discovered() (oidc.KeySet, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys != nil || time.Now().Before(k.next) {
		return k.keys, k.failed
	}
	keys, err := k.discover()
	k.failed = err
	if err != nil {
		k.next = time.Now().Add(rediscoveryInterval)
		return nil, err
	}
	k.keys = keys
	return keys, nil
}

func (k *keySet) discover() (oidc.KeySet, error) {
	provider, err := oidc.NewProvider(k.ctx, k.issuer)
	if err != nil {
		return nil, err
	}
	var document struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, err
	}
	if document.Keys == "" {
		return nil, errors.New("provider did not return JWKS URL")
	}
	return oidc.NewRemoteKeySet(k.ctx, document.Keys), nil
}
