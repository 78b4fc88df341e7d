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

	"kelson.dev/apiserver/bounded"
)

// keySet holds the keys of an issuer. The first token starts the discovery of their URL. The keys
// are fetched again when a token is signed with an unknown key.
type keySet struct {
	ctx    context.Context
	issuer string
	client *http.Client

	mu      sync.Mutex
	keys    oidc.KeySet   // nil before the first successful discovery
	failed  error         // error of the last discovery
	next    time.Time     // earliest time of the next discovery after a failed one
	running chan struct{} // closed when the discovery in progress ends; nil: there is none
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
	base := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: config})
	transport := bounded.Wrap(base)
	if issuer.DiscoveryURL != "" {
		target, err := url.Parse(issuer.DiscoveryURL)
		if err != nil {
			return nil, fmt.Errorf("parse discovery URL: %w", err)
		}
		transport = discoveryRedirect{transport, strings.TrimSuffix(issuer.URL, "/") +
			"/.well-known/openid-configuration", target}
	}
	k := &keySet{issuer: issuer.URL, client: &http.Client{Transport: transport, Timeout: bounded.Timeout}}
	k.ctx = oidc.ClientContext(ctx, k.client)
	context.AfterFunc(ctx, base.CloseIdleConnections)
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

// VerifySignature implements [oidc.KeySet].
func (k *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	keys, err := k.discovered(ctx)
	if err != nil {
		return nil, fmt.Errorf("discover keys of issuer %s: %w", k.issuer, err)
	}
	return keys.VerifySignature(ctx, jwt)
}

// discovered returns the keys. It waits until their discovery or ctx ends.
func (k *keySet) discovered(ctx context.Context) (oidc.KeySet, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys != nil || time.Now().Before(k.next) {
		return k.keys, k.failed
	}
	if k.running == nil {
		k.running = make(chan struct{})
		go k.run(k.running)
	}
	running := k.running
	k.mu.Unlock()
	select {
	case <-running:
	case <-ctx.Done():
	}
	k.mu.Lock()
	if k.keys == nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return k.keys, k.failed
}

// run discovers the keys and closes done.
func (k *keySet) run(done chan struct{}) {
	keys, err := k.discover()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys, k.failed, k.running = keys, err, nil
	if err != nil {
		k.next = time.Now().Add(rediscoveryInterval)
	}
	close(done)
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
