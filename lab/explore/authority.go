package explore

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kelson.dev/lab/agent/inside"
)

// serviceFiles are the files with which the processes of a Program reach services.
type serviceFiles struct{ authority, certificate, key string }

// writeServiceFiles writes an authority, and the certificate of all services that it has signed, to
// a folder. The key of the authority is discarded.
func writeServiceFiles(dir string, services []Service) (f serviceFiles, err error) {
	f = serviceFiles{filepath.Join(dir, "services-ca.crt"), filepath.Join(dir, "services.crt"),
		filepath.Join(dir, "services.key")}
	// Bubbles begin on 1 January 2000.
	valid := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC), BasicConstraintsValid: true}
	authority, leaf := valid, valid
	authority.Subject, authority.IsCA = pkix.Name{CommonName: "kelson explore"}, true
	authority.KeyUsage = x509.KeyUsageCertSign
	leaf.SerialNumber, leaf.KeyUsage = big.NewInt(2), x509.KeyUsageDigitalSignature
	leaf.Subject = pkix.Name{CommonName: "services"}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, s := range services {
		host, _, err := net.SplitHostPort(s.pattern)
		if err != nil {
			return f, err
		}
		if ip := net.ParseIP(host); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, host)
		}
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return f, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return f, err
	}
	authorityDER, err := x509.CreateCertificate(rand.Reader, &authority, &authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return f, err
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, &leaf, &authority, key.Public(), authorityKey)
	if err != nil {
		return f, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return f, err
	}
	return f, errors.Join(writePEM(f.authority, "CERTIFICATE", authorityDER),
		writePEM(f.certificate, "CERTIFICATE", leafDER), writePEM(f.key, "PRIVATE KEY", keyDER))
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// variables returns the variables of a process that reaches services. The program then has no other
// authorities, unless it may connect to other systems: it would read all files of the machine's
// folder with each start. The virtual network does not contain
// the proxies that the user's environment names, so their variables are emptied.
func (f serviceFiles) variables(services []Service, allows bool) []string {
	var patterns []string
	for _, s := range services {
		patterns = append(patterns, s.pattern)
	}
	all := []string{inside.ServicesVariable + "=" + strings.Join(patterns, ","),
		inside.CertificateVariable + "=" + f.certificate + "," + f.key, "SSL_CERT_FILE=" + f.authority}
	if !allows {
		all = append(all, "SSL_CERT_DIR="+filepath.Dir(f.authority))
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
			all = append(all, name+"=", strings.ToLower(name)+"=")
		}
	}
	return all
}
