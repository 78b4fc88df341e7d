package pki

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
	"time"
)

// renewBefore is how long before its expiry a certificate is replaced.
const renewBefore = 30 * 24 * time.Hour

// localHosts are the names and addresses of a server on this machine and of the kubernetes service.
var localHosts = []string{
	"localhost", "127.0.0.1", "::1",
	"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
}

// Serving returns a function for tls.Config.GetCertificate. It serves a certificate for hosts, the
// loopback addresses and the kubernetes service, and replaces it before it expires.
func (a *Authority) Serving(hosts ...string) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s := &serving{authority: a, hosts: append(append([]string{}, localHosts...), hosts...)}
	return s.certificate
}

// Files returns a function for tls.Config.GetCertificate that serves the certificate of two PEM
// files.
func Files(certFile, keyFile string) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("read serving certificate: %w", err)
	}
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }, nil
}

// serving holds a serving certificate.
type serving struct {
	authority *Authority
	hosts     []string

	mu      sync.Mutex
	current *tls.Certificate
}

// usable reports whether a certificate is valid and not about to expire. A certificate is not valid
// yet if the clock was set back after it was issued.
func usable(leaf *x509.Certificate, now time.Time) bool {
	return !now.Before(leaf.NotBefore) && leaf.NotAfter.Sub(now) > renewBefore
}

func (s *serving) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil && usable(s.current.Leaf, time.Now()) {
		return s.current, nil
	}
	issued, err := s.authority.Server(s.hosts...)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(issued.CertPEM, issued.KeyPEM)
	if err != nil {
		return nil, fmt.Errorf("issue serving certificate: %w", err)
	}
	s.current = &pair
	return s.current, nil
}
