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
	until    time.Time               // with a monotonic clock reading
	from, to time.Time               // when the whole chain is valid, by the wall clock
	response *authenticator.Response // shared, read-only
}

// holds reports whether a verdict is valid at a time, with the present authorities. Setting the
// clock does not extend it.
func (v verdict) holds(now time.Time, by *bundle) bool {
	return v.response != nil && v.by == by && now.Before(v.until) && !now.Before(v.from) && !now.After(v.to)
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
	if known.holds(now, by) {
		return known.response, true, nil
	}
	response, ok, err := v.verify.AuthenticateRequest(req)
	if !ok || err != nil {
		return response, ok, err // rejections are not cached
	}
	fresh := verdict{by: by, until: now.Add(cacheFor), from: leaf.NotBefore, to: leaf.NotAfter, response: response}
	for _, c := range req.TLS.PeerCertificates[1:] {
		if c.NotBefore.After(fresh.from) {
			fresh.from = c.NotBefore
		}
		if c.NotAfter.Before(fresh.to) {
			fresh.to = c.NotAfter
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
	v.known[leaf] = fresh
	return response, true, nil
}
