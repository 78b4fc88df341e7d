package webhook

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"slices"
	"time"
)

// Keys of a Secret with a bundle. The first two are those of the type kubernetes.io/tls.
const (
	certKey   = "tls.crt"
	keyKey    = "tls.key"
	caCertKey = "ca.crt" // may hold several, oldest first
	caKeyKey  = "ca.key" // in the same order
)

// bundle is the state that replicas share: certificate authorities, oldest first, and a serving
// certificate that one of them signed.
type bundle struct {
	authorities []pair
	serving     pair
}

// pair is a certificate and its private key.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func (p pair) remaining(now time.Time) time.Duration { return p.cert.NotAfter.Sub(now) }

// caLives is the lifetime of an authority, in lifetimes of serving certificates.
const caLives = 40

// renewed returns b with expiring certificates replaced, or b itself if there are none. It replaces
// the serving certificate after two thirds of its life. It adds an authority when the newest one is
// valid for only four lifetimes of a serving certificate. The new authority is distributed to
// clients for three of these lifetimes before it signs certificates.
func (b *bundle) renewed(now time.Time, names []string, life time.Duration) (*bundle, error) {
	if b == nil {
		b = &bundle{}
	}
	n := &bundle{serving: b.serving}
	for _, ca := range b.authorities {
		if ca.remaining(now) > 0 {
			n.authorities = append(n.authorities, ca)
		}
	}
	changed := len(n.authorities) != len(b.authorities)
	if last := len(n.authorities) - 1; last < 0 || n.authorities[last].remaining(now) < 4*life {
		ca, err := newAuthority(now, caLives*life)
		if err != nil {
			return nil, err
		}
		n.authorities, changed = append(n.authorities, ca), true
	}
	if !n.serves(now, names, life) {
		signer := n.authorities[len(n.authorities)-1]
		for _, ca := range n.authorities {
			if ca.remaining(now) > life {
				// the oldest one that lives long enough: clients have trusted it longest
				signer = ca
				break
			}
		}
		serving, err := newServing(now, life, signer, names)
		if err != nil {
			return nil, err
		}
		n.serving, changed = serving, true
	}
	if !changed {
		return b, nil
	}
	return n, nil
}

// due returns when to call renewed again.
func (b *bundle) due(life time.Duration) time.Time {
	due := b.serving.cert.NotAfter.Add(-life / 3)
	if ca := b.authorities[len(b.authorities)-1].cert.NotAfter.Add(-4 * life); ca.Before(due) {
		due = ca
	}
	for _, ca := range b.authorities {
		if ca.cert.NotAfter.Before(due) {
			due = ca.cert.NotAfter
		}
	}
	return due.Add(time.Second)
}

// serves reports whether the serving certificate can stay in use.
func (b *bundle) serves(now time.Time, names []string, life time.Duration) bool {
	c := b.serving.cert
	if c == nil || b.serving.remaining(now) <= life/3 || now.Before(c.NotBefore) {
		return false
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil && !slices.ContainsFunc(c.IPAddresses, ip.Equal) ||
			ip == nil && !slices.Contains(c.DNSNames, name) {
			return false
		}
	}
	return slices.ContainsFunc(b.authorities, func(ca pair) bool { return c.CheckSignatureFrom(ca.cert) == nil })
}

// pem returns the certificates that clients must trust.
func (b *bundle) pem() []byte {
	var out []byte
	for _, ca := range b.authorities {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})...)
	}
	return out
}

func (b *bundle) tls() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{b.serving.cert.Raw}, PrivateKey: b.serving.key, Leaf: b.serving.cert}
}

func (b *bundle) equal(o *bundle) bool {
	return b != nil && o != nil && b.serving.cert.Equal(o.serving.cert) && bytes.Equal(b.pem(), o.pem())
}

// encode returns the bundle as the data of a Secret.
func (b *bundle) encode() (map[string][]byte, error) {
	data := map[string][]byte{caCertKey: b.pem(),
		certKey: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.serving.cert.Raw})}
	for _, p := range append(slices.Clone(b.authorities), b.serving) {
		der, err := x509.MarshalPKCS8PrivateKey(p.key)
		if err != nil {
			return nil, err
		}
		block := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
		if p == b.serving {
			data[keyKey] = block
		} else {
			data[caKeyKey] = append(data[caKeyKey], block...)
		}
	}
	return data, nil
}

// decodeBundle decodes the output of encode. An error means that another program wrote the data, or
// that it is damaged.
func decodeBundle(data map[string][]byte) (*bundle, error) {
	authorities, err := decodePairs(data[caCertKey], data[caKeyKey])
	if err != nil {
		return nil, fmt.Errorf("certificate authorities: %w", err)
	}
	serving, err := decodePairs(data[certKey], data[keyKey])
	if err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	if len(authorities) == 0 || len(serving) != 1 {
		return nil, fmt.Errorf("%d certificate authorities and %d serving certificates: want at least one, and exactly one", len(authorities), len(serving))
	}
	return &bundle{authorities: authorities, serving: serving[0]}, nil
}

func decodePairs(certs, keys []byte) ([]pair, error) {
	var pairs []pair
	for {
		var c, k *pem.Block
		c, certs = pem.Decode(certs)
		k, keys = pem.Decode(keys)
		if c == nil && k == nil {
			return pairs, nil
		}
		if c == nil || k == nil {
			return nil, errors.New("the numbers of certificates and keys differ")
		}
		cert, err := x509.ParseCertificate(c.Bytes)
		if err != nil {
			return nil, err
		}
		parsed, err := x509.ParsePKCS8PrivateKey(k.Bytes)
		if err != nil {
			return nil, err
		}
		key, ok := parsed.(*ecdsa.PrivateKey)
		if !ok || !key.PublicKey.Equal(cert.PublicKey) {
			return nil, errors.New("a key does not match its certificate")
		}
		pairs = append(pairs, pair{cert, key})
	}
}

// backdate makes certificates valid for clocks that are slow.
const backdate = time.Hour

func newAuthority(now time.Time, life time.Duration) (pair, error) {
	return issue(nil, &x509.Certificate{
		Subject:   pkix.Name{CommonName: fmt.Sprintf("webhook-ca-%d", now.Unix())},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(life),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	})
}

func newServing(now time.Time, life time.Duration, ca pair, names []string) (pair, error) {
	c := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "webhook"},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	unique := map[string]bool{}
	for _, name := range names {
		unique[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(unique)) {
		if ip := net.ParseIP(name); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	return issue(&ca, c)
}

// issue signs a certificate; without an authority, it is self-signed.
func issue(ca *pair, template *x509.Certificate) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return pair{}, err
	}
	if ca == nil {
		ca = &pair{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return pair{}, fmt.Errorf("issue certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return pair{cert, key}, err
}
