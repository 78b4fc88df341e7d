package authn_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kelson.dev/apiserver/authn"
	"kelson.dev/internal/require"
)

func TestTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.csv")
	require.NoError(t, os.WriteFile(file, []byte("secret,bob,1,\"dev,ops\"\n"), 0o600))
	auth, err := authn.New(t.Context(), authn.Config{TokenFile: file, Anonymous: new(bool)})
	require.NoError(t, err)
	req := httptest.NewRequest("GET", "/", nil)
	if _, ok, err := auth.AuthenticateRequest(req); ok || err != nil {
		t.Errorf("a request without credentials: %v %v", ok, err)
	}
	req.Header.Set("Authorization", "Bearer secret")
	resp, ok, err := auth.AuthenticateRequest(req)
	if err != nil || !ok || resp.User.GetName() != "bob" ||
		!slices.Equal(resp.User.GetGroups(), []string{"dev", "ops", "system:authenticated"}) {
		t.Errorf("%v %v %v", resp, ok, err)
	}
	req.Header.Set("Authorization", "Bearer wrong")
	if _, ok, err := auth.AuthenticateRequest(req); ok || err == nil {
		t.Errorf("an invalid token: %v %v", ok, err)
	}
	if _, err := authn.New(t.Context(), authn.Config{TokenFile: file + "x"}); err == nil {
		t.Error("no such file")
	}
}

func TestClientCertificate(t *testing.T) {
	ca, caKey := certificate(t, pkix.Name{CommonName: "ca"}, nil, nil)
	bob, _ := certificate(t, pkix.Name{CommonName: "bob", Organization: []string{"dev"}}, ca, caKey)
	stranger, _ := certificate(t, pkix.Name{CommonName: "bob"}, nil, nil)
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	auth, err := authn.New(t.Context(), authn.Config{ClientCAs: pool})
	require.NoError(t, err)
	req := httptest.NewRequest("GET", "/", nil)
	req.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{bob}}
	resp, ok, err := auth.AuthenticateRequest(req)
	if err != nil || !ok || resp.User.GetName() != "bob" ||
		!slices.Equal(resp.User.GetGroups(), []string{"dev", "system:authenticated"}) {
		t.Errorf("%v %v %v", resp, ok, err)
	}
	req.TLS.PeerCertificates[0] = stranger
	if _, ok, err := auth.AuthenticateRequest(req); ok || err == nil {
		t.Errorf("%v %v", ok, err)
	}
}

// certificate makes a certificate signed by a CA, or by itself.
func certificate(t testing.TB, name pkix.Name, ca *x509.Certificate,
	caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: name,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		IsCA:        ca == nil, BasicConstraintsValid: true,
	}
	parent, signer := ca, caKey
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert, key
}
