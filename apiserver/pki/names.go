package pki

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
)

// Named is a certificate for clients that ask for certain names (SNI).
type Named struct {
	names []string // in lower case; "*.example.com" matches one label
	pair  tls.Certificate
}

// LoadNamed reads a certificate and its key from files. The certificate is used for the given
// names. If none are given, it is used for its DNS names or, if it has none, for its common name.
func LoadNamed(certFile, keyFile string, names ...string) (Named, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return Named{}, fmt.Errorf("read serving certificate: %w", err)
	}
	if len(names) == 0 {
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			return Named{}, fmt.Errorf("parse certificate %s: %w", certFile, err)
		}
		if names = leaf.DNSNames; len(names) == 0 && leaf.Subject.CommonName != "" {
			names = []string{leaf.Subject.CommonName}
		}
		for _, ip := range leaf.IPAddresses {
			names = append(names, ip.String())
		}
	}
	n := Named{pair: pair}
	for _, name := range names {
		n.names = append(n.names, strings.ToLower(strings.TrimSuffix(name, ".")))
	}
	return n, nil
}

// ByName returns a function for tls.Config.GetCertificate. It returns the first certificate for the
// name that a client asks for, an exact match before a wildcard. Other clients, and those that do
// not support the key of that certificate, get the certificate of otherwise.
func ByName(
	all []Named, otherwise func(*tls.ClientHelloInfo) (*tls.Certificate, error),
) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if len(all) == 0 {
		return otherwise
	}
	byName := map[string]*tls.Certificate{}
	for i := range all {
		for _, name := range all[i].names {
			if byName[name] == nil {
				byName[name] = &all[i].pair
			}
		}
	}
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
		wildcard := name
		if _, parent, ok := strings.Cut(name, "."); ok {
			wildcard = "*." + parent
		}
		anyName := *hello // the certificate need not contain the name
		anyName.ServerName = ""
		for _, try := range []string{name, wildcard} {
			if pair := byName[try]; pair != nil && anyName.SupportsCertificate(pair) == nil {
				return pair, nil
			}
		}
		return otherwise(hello)
	}
}
