package pki

import (
	"crypto/tls"
	"fmt"
	"sync"
	"time"
)

// ClientCertificate returns a function for tls.Config.GetClientCertificate. It presents a
// certificate of a user with groups, which it issues for the first connection and replaces before
// it expires.
func (a *Authority) ClientCertificate(user string,
	groups ...string) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	var mu sync.Mutex
	var current *tls.Certificate
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		if current != nil && usable(current.Leaf, time.Now()) {
			return current, nil
		}
		issued, err := a.Client(user, groups...)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(issued.CertPEM, issued.KeyPEM)
		if err != nil {
			return nil, fmt.Errorf("issue client certificate for %s: %w", user, err)
		}
		current = &pair
		return current, nil
	}
}

// ClientFiles returns a function for tls.Config.GetClientCertificate that presents the certificate
// of two PEM files. It reads them for every connection, so that a renewed certificate is used.
// While they cannot be read, it presents the last one.
func ClientFiles(certFile, keyFile string) (func(*tls.CertificateRequestInfo) (*tls.Certificate, error), error) {
	first, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("read client certificate: %w", err)
	}
	var mu sync.Mutex
	last := &first
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			last = &pair
		}
		return last, nil
	}, nil
}
