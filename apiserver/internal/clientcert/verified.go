package clientcert

import (
	stdx509 "crypto/x509"
	"sync"
	"time"
)

const (
	cacheFor = time.Minute
	// maxCached is the maximum number of cached certificates. When it is exceeded, the cache is
	// cleared.
	maxCached = 4096
)

// verified caches the results of verifying certificates. The zero value is empty.
type verified[T any] struct {
	mu sync.Mutex
	// byLeaf is keyed by the leaf certificate of connections. crypto/tls shares parsed certificates
	// among connections, so a client that connects again finds its verdict. An entry keeps its
	// certificate and pool alive, so that no others get their addresses.
	byLeaf map[*stdx509.Certificate]verdict[T]
}

type verdict[T any] struct {
	authorities *stdx509.CertPool
	until       time.Time // with a monotonic clock reading
	from, to    time.Time // when the whole chain is valid, by the wall clock
	result      T
}

// holds reports whether a verdict is valid at a time, with the present authorities. Setting the
// clock does not extend it.
func (v verdict[T]) holds(now time.Time, authorities *stdx509.CertPool) bool {
	return v.authorities == authorities && now.Before(v.until) && !now.Before(v.from) && !now.After(v.to)
}

// get returns the result of verifying a certificate with these authorities, if it is still valid.
func (v *verified[T]) get(leaf *stdx509.Certificate, authorities *stdx509.CertPool) (result T, ok bool) {
	v.mu.Lock()
	entry, ok := v.byLeaf[leaf]
	v.mu.Unlock()
	if !ok || !entry.holds(time.Now(), authorities) {
		return result, false
	}
	return entry.result, true
}

// put caches the result of a certificate that authorities verified by a chain, which begins with
// the certificate and ends with an authority.
func (v *verified[T]) put(leaf *stdx509.Certificate, authorities *stdx509.CertPool, chain []*stdx509.Certificate, result T) {
	fresh := verdict[T]{authorities: authorities, until: time.Now().Add(cacheFor), from: leaf.NotBefore, to: leaf.NotAfter, result: result}
	for _, c := range chain {
		if c.NotBefore.After(fresh.from) {
			fresh.from = c.NotBefore
		}
		if c.NotAfter.Before(fresh.to) {
			fresh.to = c.NotAfter
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.byLeaf) >= maxCached {
		clear(v.byLeaf)
	}
	if v.byLeaf == nil {
		v.byLeaf = map[*stdx509.Certificate]verdict[T]{}
	}
	v.byLeaf[leaf] = fresh
}
