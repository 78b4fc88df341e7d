// Package clientcert authenticates requests by client certificates: those of users, and those of
// authenticating proxies, which name users in headers.
//
// Verifying the signatures of a chain takes longer than a small request, and all requests of a
// connection have the same certificate. Verified chains are therefore cached. A cached chain is
// used
//
//   - while the options have the same pool of authorities, compared by identity: the function that
//     returns the options must return another pool when the authorities change,
//   - while all certificates of the chain, including the authority's, are valid,
//   - for at most a minute.
//
// A rejection is cached for ten seconds, for the connection and the pool. Everything else about a
// request, such as the accepted names of proxies and the headers, is checked for each request. The
// authenticators are safe for concurrent use.
package clientcert

import (
	stdx509 "crypto/x509"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/request/x509"
)

// Users returns an authenticator of users by their certificates: the common name is the user, the
// organizations are the groups.
func Users(authorities x509.VerifyOptionFunc) authenticator.Request {
	return &users{authorities: authorities, cache: newVerified[*authenticator.Response]()}
}

type users struct {
	authorities x509.VerifyOptionFunc
	cache       *verified[*authenticator.Response] // the responses are shared and read-only
}

func (u *users) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	leaf := presented(req)
	if leaf == nil {
		return nil, false, nil
	}
	options, ok := u.authorities()
	if !ok {
		return nil, false, nil // there are no authorities yet
	}
	// Kubernetes' authenticator verifies the chain, and records when it expires for a metric. It
	// gets the same options as the cache.
	response, err := u.cache.verify(req, options.Roots,
		func() (chain []*stdx509.Certificate, response *authenticator.Response, err error) {
			verify := x509.NewDynamic(func() (stdx509.VerifyOptions, bool) { return options, true },
				x509.UserConversionFunc(func(c []*stdx509.Certificate) (*authenticator.Response, bool, error) {
					chain = c
					return x509.CommonNameUserConversion(c)
				}))
			response, _, err = group.NewAuthenticatedGroupAdder(verify).AuthenticateRequest(req)
			return chain, response, err
		})
	return response, response != nil, err
}

// Proxies configures the authenticator of requests that come through an authenticating proxy.
type Proxies struct {
	// Authorities verify the certificates of proxies.
	Authorities x509.VerifyOptionFunc
	// AllowedNames are the accepted common names of proxies; none means any.
	AllowedNames headerrequest.StringSliceProvider
	// Usernames, UIDs and Groups are names of headers; ExtraPrefixes are prefixes of the headers of
	// extra attributes.
	Usernames, UIDs, Groups, ExtraPrefixes headerrequest.StringSliceProvider
	// OnlyNamed skips the verification for requests that do not name a user, because they do not
	// come from a proxy. Otherwise, the certificate of each user would be verified against the
	// authorities of proxies, which fails. Set it only in servers that also verify the certificates
	// of users, and therefore reject certificates of unknown authorities.
	OnlyNamed bool
}

// Authenticator returns the authenticator.
func (p Proxies) Authenticator() authenticator.Request {
	headers := headerrequest.NewDynamic(p.Usernames, p.UIDs, p.Groups, p.ExtraPrefixes)
	return &proxies{Proxies: p, headers: headers, cache: newVerified[struct{}]()}
}

type proxies struct {
	Proxies
	headers authenticator.Request
	cache   *verified[struct{}]
}

func (p *proxies) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	leaf := presented(req)
	if leaf == nil || p.OnlyNamed && !p.named(req) {
		return nil, false, nil
	}
	options, ok := p.Authorities()
	if !ok {
		return nil, false, nil
	}
	_, err := p.cache.verify(req, options.Roots, func() ([]*stdx509.Certificate, struct{}, error) {
		if options.Intermediates == nil && len(req.TLS.PeerCertificates) > 1 {
			options.Intermediates = stdx509.NewCertPool()
			for _, c := range req.TLS.PeerCertificates[1:] {
				options.Intermediates.AddCert(c)
			}
		}
		chains, err := leaf.Verify(options)
		if err != nil {
			return nil, struct{}{}, err
		}
		return chains[0], struct{}{}, nil
	})
	if err != nil {
		return nil, false, err
	}
	if allowed := p.AllowedNames.Value(); len(allowed) > 0 && !slices.Contains(allowed, leaf.Subject.CommonName) {
		return nil, false, fmt.Errorf("x509: subject with cn=%s is not in the allowed list", leaf.Subject.CommonName)
	}
	return p.headers.AuthenticateRequest(req)
}

// named reports whether the request has a header that names a user.
func (p *proxies) named(req *http.Request) bool {
	for _, name := range p.Usernames.Value() {
		if req.Header.Get(name) != "" {
			return true
		}
	}
	return false
}

// presented returns the client's certificate, or nil.
func presented(req *http.Request) *stdx509.Certificate {
	if req.TLS == nil || len(req.TLS.PeerCertificates) == 0 {
		return nil
	}
	return req.TLS.PeerCertificates[0]
}
