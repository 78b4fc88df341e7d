package authn

import (
	stdx509 "crypto/x509"
	"log/slog"
	"sync"

	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/client-go/util/cert"

	"kelson.dev/apiserver/internal/filewatch"
)

// authorities verify the certificates of clients. Those of a file follow it.
type authorities struct {
	fixed *bundle                  // nil: only the file's
	file  *filewatch.File[*bundle] // nil: only the fixed ones

	// mu guards what current made last of the two, and what joined made last.
	mu    sync.Mutex
	from  *bundle
	both  *bundle
	pair  [2]*bundle
	joint *stdx509.CertPool
}

// bundle is a set of authorities; it never changes.
type bundle struct {
	pool  *stdx509.CertPool
	certs []*stdx509.Certificate // of a file
}

// newAuthorities returns nil if there are none.
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
		a.file, err = filewatch.Open(file, parseBundle, func(err error) { log.Error("authorities of clients stay as they were", "err", err) })
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

// current is all authorities that count now.
func (a *authorities) current() *bundle {
	if a.file == nil {
		return a.fixed
	}
	now := a.file.Get()
	if a.fixed == nil {
		return now
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.from != now {
		a.from, a.both = now, &bundle{pool: join(a.fixed.pool, now.certs), certs: now.certs}
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

// joined is the pool of these and others; these come from a file.
func (a *authorities) joined(others *authorities) *stdx509.CertPool {
	pair := [2]*bundle{a.current(), others.current()}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pair != pair {
		a.pair, a.joint = pair, join(pair[1].pool, pair[0].certs)
	}
	return a.joint
}

// verifyOptions is how a client certificate is verified now.
func (a *authorities) verifyOptions() (stdx509.VerifyOptions, bool) {
	opts := x509.DefaultVerifyOptions()
	opts.Roots = a.current().pool
	return opts, true
}

// overlap says whether one certificate is in both.
func (b *bundle) overlap(other *bundle) bool {
	for _, c := range b.certs {
		// A pool can't be asked what it holds: whether it grows can be.
		if other.pool.Equal(join(other.pool, []*stdx509.Certificate{c})) {
			return true
		}
	}
	return false
}
