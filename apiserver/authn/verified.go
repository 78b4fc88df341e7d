package authn

import (
	stdx509 "crypto/x509"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
)

// verified caches the users of client certificates: verifying the signatures of a chain takes
// longer than a small request, and all requests of a connection have the same certificate. An entry
// is valid for a minute, until a certificate of the chain expires, or until the authorities change.
type verified struct {
	verify      authenticator.Request
	authorities func() *bundle

	mu    sync.Mutex
	known map[*stdx509.Certificate]verdict // by the leaf certificate of a connection
}

type verdict struct {
	by       *bundle
	until    time.Time
	response *authenticator.Response // shared, read-only
}

const (
	cacheFor = time.Minute
	// maxCached is the maximum number of cached certificates. When it is exceeded, the cache is
	// cleared.
	maxCached = 4096
)

func (v *verified) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	if req.TLS == nil || len(req.TLS.PeerCertificates) == 0 {
		return v.verify.AuthenticateRequest(req)
	}
	leaf, now, by := req.TLS.PeerCertificates[0], time.Now(), v.authorities()
	v.mu.Lock()
	known := v.known[leaf]
	v.mu.Unlock()
	if known.response != nil && known.by == by && now.Before(known.until) {
		return known.response, true, nil
	}
	response, ok, err := v.verify.AuthenticateRequest(req)
	if !ok || err != nil {
		return response, ok, err // rejections are not cached
	}
	until := now.Add(cacheFor)
	for _, c := range req.TLS.PeerCertificates {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.known) >= maxCached {
		clear(v.known)
	}
	if v.known == nil {
		v.known = map[*stdx509.Certificate]verdict{}
	}
	v.known[leaf] = verdict{by, until, response}
	return response, true, nil
}
