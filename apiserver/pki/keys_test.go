package pki_test

import (
	"crypto/ecdsa"
	"os"
	"path/filepath"
	"testing"

	"kelson.dev/apiserver/pki"
	"kelson.dev/internal/require"
)

// OpenKey creates a key once, readable only by its owner, and returns it from then on. A broken
// file is an error and is not replaced.
func TestOpenKeyReusesFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pki", "sa.key")
	made, err := pki.OpenKey(file)
	require.NoError(t, err)
	again, err := pki.OpenKey(file)
	if err != nil || !made.Public().(*ecdsa.PublicKey).Equal(again.Public()) {
		t.Errorf("the second call returned a different key: %v", err)
	}
	public, err := pki.ReadPublicKeys(file)
	if err != nil || len(public) != 1 || !made.Public().(*ecdsa.PublicKey).Equal(public[0]) {
		t.Errorf("public keys: %v %v", public, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	require.NoError(t, os.WriteFile(file, []byte("no key"), 0o600))
	if _, err := pki.OpenKey(file); err == nil {
		t.Error("a broken key was replaced")
	}
	if _, err := pki.ReadPublicKeys(file); err == nil {
		t.Error("a broken key was read without an error")
	}
}

// ReadPublicKeys also reads the key of a certificate.
func TestPublicKeysOfCertificates(t *testing.T) {
	ca, err := pki.NewAuthority("sa")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "sa.crt")
	require.NoError(t, os.WriteFile(file, ca.PEM, 0o600))
	keys, err := pki.ReadPublicKeys(file)
	if err != nil || len(keys) != 1 || !ca.Certificate.PublicKey.(*ecdsa.PublicKey).Equal(keys[0]) {
		t.Errorf("%v %v", keys, err)
	}
}
