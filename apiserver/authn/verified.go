package authn

import (
	stdx509 "crypto/x509"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
)

// verified remembers whom client certificates stand for: the signatures of a chain cost more than a small request, and a connection
// presents the same certificate with each of its requests. What is remembered counts for a minute, until the certificate ends, and
// as long as the authorities are the same.
type verified struct {
	verify      authenticator.Request
	authorities func() *bundle

	mu    sync.Mutex
	known map[*stdx509.Certificate]verdict // by the certificate of a connection
}

type verdict struct {
	by       *bundle
	until    time.Time
	response *authenticator.Response // nobody changes it
}

const (
	rememberFor = time.Minute
	// maxRemembered is of certificates; when there are more, all are forgotten.
	maxRemembered = 4096
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
		return response, ok, err // who is refused is looked at anew each time
	}
	until := now.Add(rememberFor)
	for _, c := range req.TLS.PeerCertificates {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.known) >= maxRemembered {
		clear(v.known)
	}
	if v.known == nil {
		v.known = map[*stdx509.Certificate]verdict{}
	}
	v.known[leaf] = verdict{by, until, response}
	return response, true, nil
}
