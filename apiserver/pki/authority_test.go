package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"kelson.dev/apiserver/pki"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// Serving certificates are valid for their hosts, and client certificates carry name and groups. A
// client certificate can't be used to serve.
func TestIssuedCertificatesVerify(t *testing.T) {
	ca, err := pki.NewAuthority("kelson-ca")
	require.NoError(t, err)
	server, err := ca.Server("localhost", "127.0.0.1", "kubernetes.default.svc")
	require.NoError(t, err)
	client, err := ca.Client("admin", "system:masters")
	require.NoError(t, err)

	leaf := func(p pki.KeyPair) *x509.Certificate {
		pair, err := tls.X509KeyPair(p.CertPEM, p.KeyPEM)
		require.NoError(t, err)
		return pair.Leaf
	}
	for _, host := range []string{"localhost", "127.0.0.1", "kubernetes.default.svc"} {
		_, err := leaf(server).Verify(x509.VerifyOptions{Roots: ca.Pool(), DNSName: host})
		assert.NoErrorf(t, err, "serving certificate for %s", host)
	}
	c := leaf(client)
	_, err = c.Verify(x509.VerifyOptions{Roots: ca.Pool(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	assert.NoErrorf(t, err, "client certificate")
	if c.Subject.CommonName != "admin" || len(c.Subject.Organization) != 1 ||
		c.Subject.Organization[0] != "system:masters" {
		t.Errorf("client subject: %v", c.Subject)
	}
	if _, err := c.Verify(x509.VerifyOptions{Roots: ca.Pool(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err == nil {
		t.Error("a client certificate was accepted as a serving certificate")
	}
}

func TestOpenAuthorityReusesFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	first, err := pki.OpenAuthority(dir, "kelson-ca")
	require.NoError(t, err)
	again, err := pki.OpenAuthority(dir, "kelson-ca")
	require.NoError(t, err)
	if !first.Certificate.Equal(again.Certificate) {
		t.Error("the authority differs after it was opened again")
	}
	if info, err := os.Stat(filepath.Join(dir, "ca.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v %v", info.Mode(), err)
	}
}

func TestOpenAuthorityRefusesDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	_, err := pki.OpenAuthority(dir, "kelson-ca")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.key"), []byte("not a key"), 0o600))
	_, err = pki.OpenAuthority(dir, "kelson-ca")
	assert.ErrorContainsf(t, err, dir, "damaged key")
	require.NoError(t, os.Remove(filepath.Join(dir, "ca.key")))
	_, err = pki.OpenAuthority(dir, "kelson-ca")
	assert.ErrorContainsf(t, err, "ca.key", "missing key")
	other, err := pki.NewAuthority("other")
	require.NoError(t, err)
	key, err := other.KeyPEM()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.key.new"), key, 0o600))
	_, err = pki.OpenAuthority(dir, "kelson-ca")
	assert.ErrorContainsf(t, err, "ca.key", "the key of another authority")
}

// A crash at any moment while the authority is written leaves one that can be opened, and that is
// the same ever after.
func TestOpenAuthorityAfterCrash(t *testing.T) {
	for name, crash := range map[string]func(cert, key string) error{
		"before the renames": func(cert, key string) error {
			return errors.Join(os.Rename(cert, cert+".new"), os.Rename(key, key+".new"))
		},
		"between the renames": func(cert, _ string) error { return os.Rename(cert, cert+".new") },
		"in the other order":  func(_, key string) error { return os.Rename(key, key+".new") },
		"while writing": func(cert, key string) error {
			return errors.Join(os.Remove(cert), os.Remove(key), os.WriteFile(key+".new", []byte("-----BEGIN"), 0o600))
		},
	} {
		dir := t.TempDir()
		_, err := pki.OpenAuthority(dir, "ca")
		require.NoError(t, err)
		require.NoError(t, crash(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")))
		first, err := pki.OpenAuthority(dir, "ca")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again, err := pki.OpenAuthority(dir, "ca")
		if err != nil || !again.Certificate.Equal(first.Certificate) {
			t.Errorf("%s: the authority differs after it was opened again: %v", name, err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*.new")); len(left) > 0 {
			t.Errorf("%s: %v", name, left)
		}
	}
}

func TestReadAuthority(t *testing.T) {
	dir := t.TempDir()
	made, err := pki.OpenAuthority(dir, "ca")
	require.NoError(t, err)
	certFile, keyFile := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	if read, err := pki.ReadAuthority(certFile, keyFile); err != nil || !read.Certificate.Equal(made.Certificate) {
		t.Errorf("%v, %v", read, err)
	}
	if _, err := pki.ReadAuthority(certFile, certFile); err == nil {
		t.Error("an authority without a key was read")
	}
	leaf, err := made.Client("jane")
	require.NoError(t, err)
	require.NoError(t, errors.Join(os.WriteFile(certFile, leaf.CertPEM, 0o600),
		os.WriteFile(keyFile, leaf.KeyPEM, 0o600)))
	_, err = pki.ReadAuthority(certFile, keyFile)
	assert.ErrorContainsf(t, err, "is not an authority", "a user's certificate")
}
