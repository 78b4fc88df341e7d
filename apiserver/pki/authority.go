// Package pki issues the certificates of a control plane: a certificate authority, serving
// certificates and client certificates.
//
// Keys are ECDSA P-256. The authority is stored in two files, ca.crt and ca.key; all other
// certificates are issued at each start. An [Authority] is immutable and safe for concurrent use.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Lifetimes of certificates.
const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	leafLifetime      = 365 * 24 * time.Hour
	// backdate accommodates clients whose clock is slow, and a clock of this machine that is set
	// back: administrators must not lose access when a clock in another time zone is corrected.
	backdate = 24 * time.Hour
)

// Authority issues certificates.
type Authority struct {
	Certificate *x509.Certificate
	// PEM is the PEM encoding of Certificate.
	PEM []byte
	key crypto.Signer
}

// KeyPair is a certificate and its key, both as PEM.
type KeyPair struct {
	CertPEM []byte
	KeyPEM  []byte
}

// NewAuthority returns a new authority that exists only in memory.
func NewAuthority(name string) (*Authority, error) {
	a, _, err := newAuthority(name)
	return a, err
}

// OpenAuthority reads the authority in a directory, or creates one there, durably. It returns an
// error if only one of the two files exists or if they do not belong together; it never overwrites
// a file. After a crash or an error while it created the authority, the next call creates one.
func OpenAuthority(dir, name string) (*Authority, error) {
	certFile, keyFile := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	if err := resume(certFile, keyFile); err != nil {
		return nil, fmt.Errorf("write certificate authority: %w", err)
	}
	certPEM, certErr := os.ReadFile(certFile)
	keyPEM, keyErr := os.ReadFile(keyFile)
	switch {
	case errors.Is(certErr, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist):
	case certErr != nil:
		return nil, fmt.Errorf("read certificate authority: %w", certErr)
	case keyErr != nil:
		return nil, fmt.Errorf("read certificate authority: %w", keyErr)
	default:
		return ParseAuthority(certPEM, keyPEM, certFile)
	}

	a, keyPEM, err := newAuthority(name)
	if err != nil {
		return nil, err
	}
	if err := create(content{keyFile, keyPEM, 0o600}, content{certFile, a.PEM, 0o644}); err != nil {
		return nil, fmt.Errorf("write certificate authority: %w", err)
	}
	return a, nil
}

// ReadAuthority reads the authority of two PEM files.
func ReadAuthority(certFile, keyFile string) (*Authority, error) {
	certPEM, err := os.ReadFile(certFile)
	if err != nil {
		return nil, fmt.Errorf("read certificate authority: %w", err)
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("read certificate authority: %w", err)
	}
	return ParseAuthority(certPEM, keyPEM, certFile)
}

// ParseAuthority returns the authority of a certificate and its key. source names their origin in
// errors.
func ParseAuthority(certPEM, keyPEM []byte, source string) (*Authority, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("read certificate authority %s: %w", source, err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || pair.Leaf.Version > 1 && !pair.Leaf.IsCA { // certificates of version 1 have no IsCA
		return nil, fmt.Errorf("read certificate authority: %s is not an authority", source)
	}
	if time.Now().After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("read certificate authority: %s expired on %s", source,
			pair.Leaf.NotAfter.Format(time.DateOnly))
	}
	return &Authority{Certificate: pair.Leaf, PEM: certPEM, key: signer}, nil
}

// Expired reports whether a PEM certificate can be read and has expired at a time.
func Expired(certPEM []byte, now time.Time) bool {
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	return err == nil && now.After(cert.NotAfter)
}

// Key returns the private key of the authority.
func (a *Authority) Key() crypto.Signer { return a.key }

// KeyPEM returns the private key of the authority as PEM.
func (a *Authority) KeyPEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, fmt.Errorf("encode key of certificate authority: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func newAuthority(name string) (*Authority, []byte, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-backdate),
		NotAfter:              time.Now().Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	pair, cert, key, err := issue(template, nil, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("make certificate authority: %w", err)
	}
	return &Authority{Certificate: cert, PEM: pair.CertPEM, key: key}, pair.KeyPEM, nil
}

// Client issues a certificate that authenticates a user: the common name is the user's name, the
// organizations are the groups.
func (a *Authority) Client(user string, groups ...string) (KeyPair, error) {
	pair, _, _, err := issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		NotBefore:   time.Now().Add(-backdate),
		NotAfter:    time.Now().Add(leafLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.Certificate, a.key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("issue client certificate for %s: %w", user, err)
	}
	return pair, nil
}

// Server issues a serving certificate for host names and IP addresses.
func (a *Authority) Server(hosts ...string) (KeyPair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kelson-apiserver"},
		NotBefore:   time.Now().Add(-backdate),
		NotAfter:    time.Now().Add(leafLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	pair, _, _, err := issue(template, a.Certificate, a.key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("issue serving certificate: %w", err)
	}
	return pair, nil
}

// Pool returns a pool with only this authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Certificate)
	return pool
}

// issue creates a key and a certificate for it, signed by parent or, if that is nil, by itself.
func issue(template, parent *x509.Certificate,
	parentKey crypto.Signer) (KeyPair, *x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return KeyPair{}, nil, nil, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return KeyPair{}, nil, nil, err
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return KeyPair{}, nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return KeyPair{}, nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return KeyPair{}, nil, nil, err
	}
	return KeyPair{
		CertPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, cert, key, nil
}
