package authn

import (
	stdx509 "crypto/x509"
	"log/slog"
	"sync"

	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/client-go/util/cert"

	"kelson.dev/apiserver/internal/filewatch"
)

// authorities verify client certificates. They follow changes of a file.
type authorities struct {
	fixed *bundle                  // nil: only the file has authorities
	file  *filewatch.File[*bundle] // nil: there are only fixed authorities

	// mu guards the cached results of current (from, both) and joined (pair, joint).
	mu    sync.Mutex
	from  *bundle
	both  *bundle
	pair  [2]*bundle
	joint *stdx509.CertPool
}

// bundle is an immutable set of authorities.
type bundle struct {
	pool  *stdx509.CertPool
	certs []*stdx509.Certificate // those from a file
}

// newAuthorities returns nil if both pool and file are empty.
func newAuthorities(pool *stdx509.CertPool, file string, log *slog.Logger) (*authorities, error) {
	if pool == nil && file == "" {
		return nil, nil
	}
	a := &authorities{}
	if pool != nil {
		a.fixed = &bundle{pool: pool}
	}
	if file != "" {
		var err error
		a.file, err = filewatch.Open(file, parseBundle, func(err error) {
			log.Error("reload client certificate authorities: keeping the previous ones", "err", err)
		})
		if err != nil {
			return nil, err
		}
	}
	return a, nil
}

func parseBundle(pem []byte) (*bundle, error) {
	certs, err := cert.ParseCertsPEM(pem)
	if err != nil {
		return nil, err
	}
	b := &bundle{pool: stdx509.NewCertPool(), certs: certs}
	for _, c := range certs {
		b.pool.AddCert(c)
	}
	return b, nil
}

// current returns all current authorities.
func (a *authorities) current() *bundle {
	if a.file == nil {
		return a.fixed
	}
	loaded := a.file.Get()
	if a.fixed == nil {
		return loaded
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.from != loaded {
		a.from, a.both = loaded, &bundle{pool: join(a.fixed.pool, loaded.certs), certs: loaded.certs}
	}
	return a.both
}

func join(pool *stdx509.CertPool, more []*stdx509.Certificate) *stdx509.CertPool {
	pool = pool.Clone()
	for _, c := range more {
		pool.AddCert(c)
	}
	return pool
}

// joined returns the pool of a, which must come from a file, and others.
func (a *authorities) joined(others *authorities) *stdx509.CertPool {
	pair := [2]*bundle{a.current(), others.current()}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pair != pair {
		a.pair, a.joint = pair, join(pair[1].pool, pair[0].certs)
	}
	return a.joint
}

// clientUsages are the usages that client certificates must have. It is not changed.
var clientUsages = x509.DefaultVerifyOptions().KeyUsages

// verifyOptions returns the current options for verifying client certificates. Their pool is a
// different one after the authorities have changed. verifyOptions does not allocate.
func (a *authorities) verifyOptions() (stdx509.VerifyOptions, bool) {
	return stdx509.VerifyOptions{Roots: a.current().pool, KeyUsages: clientUsages}, true
}

// overlap reports whether both bundles contain a common certificate.
func (b *bundle) overlap(other *bundle) bool {
	for _, c := range b.certs {
		// CertPool has no method to look up a certificate, so check whether adding it changes the
		// pool.
		if other.pool.Equal(join(other.pool, []*stdx509.Certificate{c})) {
			return true
		}
	}
	return false
}
