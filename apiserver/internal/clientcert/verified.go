package clientcert

import (
	stdx509 "crypto/x509"
	"net/http"
	"sync"
	"time"
	"weak"

	"kelson.dev/apiserver/internal/turn"
)

const (
	cacheFor = time.Minute
	// rejectFor is shorter, because a rejected chain can become valid with time.
	rejectFor = 10 * time.Second
	// maxCached is the maximum number of cached certificates. When it is exceeded, the cache is
	// cleared.
	maxCached = 4096
)

// verified caches the results of verifying certificates. newVerified creates one.
type verified[T any] struct {
	verifying turn.Turns
	mu        sync.Mutex
	// byLeaf is keyed by the leaf certificate of connections. crypto/tls shares parsed certificates
	// among connections, so a client that connects again finds its verdict. An entry keeps its
	// certificate and pool alive, so that no others get their addresses.
	byLeaf map[*stdx509.Certificate]verdict[T]
	// rejected is keyed by the certificates of a connection, because another connection may have
	// the intermediates that this one lacks. It does not keep them alive: they can be large.
	rejected map[weak.Pointer[*stdx509.Certificate]]rejection
}

type rejection struct {
	authorities *stdx509.CertPool
	until       time.Time
	err         error
}

func newVerified[T any]() *verified[T] {
	return &verified[T]{
		verifying: turn.New(turn.Processors),
		byLeaf:    map[*stdx509.Certificate]verdict[T]{},
		rejected:  map[weak.Pointer[*stdx509.Certificate]]rejection{},
	}
}

// verify returns the cached result for a request's certificates, or that of check. Clients choose
// chains, and one with many large keys takes a tenth of a second. Checks therefore take turns, and
// each connection is checked once while the verdict is cached.
func (v *verified[T]) verify(req *http.Request, authorities *stdx509.CertPool,
	check func() ([]*stdx509.Certificate, T, error)) (result T, err error) {
	certificates := req.TLS.PeerCertificates
	if result, ok := v.get(certificates[0], authorities); ok {
		return result, nil
	}
	key := weak.Make(&certificates[0])
	if err := v.rejection(key, authorities); err != nil {
		return result, err
	}
	t, err := v.verifying.Take(req.Context())
	if err != nil {
		return result, err
	}
	defer t.End()
	if result, ok := v.get(certificates[0], authorities); ok {
		return result, nil
	}
	if err := v.rejection(key, authorities); err != nil {
		return result, err
	}
	chain, result, err := check()
	if err != nil {
		v.reject(key, rejection{authorities, time.Now().Add(rejectFor), err})
	} else if chain != nil {
		v.put(certificates[0], authorities, chain, result)
	}
	return result, err
}

// rejection returns the cached error of a connection's certificates, or nil.
func (v *verified[T]) rejection(key weak.Pointer[*stdx509.Certificate], authorities *stdx509.CertPool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r := v.rejected[key]; r.authorities == authorities && time.Now().Before(r.until) {
		return r.err
	}
	return nil
}

func (v *verified[T]) reject(key weak.Pointer[*stdx509.Certificate], r rejection) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.rejected) >= maxCached {
		clear(v.rejected)
	}
	v.rejected[key] = r
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
func (v *verified[T]) put(leaf *stdx509.Certificate, authorities *stdx509.CertPool, chain []*stdx509.Certificate,
	result T) {
	fresh := verdict[T]{authorities: authorities, until: time.Now().Add(cacheFor), from: leaf.NotBefore,
		to: leaf.NotAfter, result: result}
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
	v.byLeaf[leaf] = fresh
}
