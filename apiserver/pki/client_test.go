package pki_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/pki"
	"kelson.dev/internal/require"
)

// A new certificate in the files is presented without a restart. While the files are invalid, the
// last valid certificate is presented.
func TestClientFilesAreReadAgain(t *testing.T) {
	authority, err := pki.NewAuthority("test")
	require.NoError(t, err)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	issue := func(name string) {
		t.Helper()
		pair, err := authority.Client(name)
		require.NoError(t, err)
		for file, data := range map[string][]byte{cert: pair.CertPEM, key: pair.KeyPEM} {
			require.NoError(t, os.WriteFile(file, data, 0o600))
		}
	}
	if _, err := pki.ClientFiles(cert, key); err == nil {
		t.Error("no error although the files are missing")
	}
	issue("one")
	present, err := pki.ClientFiles(cert, key)
	require.NoError(t, err)
	want := func(name string) {
		t.Helper()
		if pair, err := present(nil); err != nil || pair.Leaf.Subject.CommonName != name {
			t.Errorf("%v, %v; want %s", pair, err, name)
		}
	}
	want("one")
	issue("two")
	want("two")
	require.NoError(t, os.WriteFile(key, []byte("half"), 0o600))
	want("two")
}

func TestClientCertificatesAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority, err := pki.NewAuthority("test")
		require.NoError(t, err)
		present := authority.ClientCertificate("front-proxy")
		first, err := present(nil)
		if err != nil || first.Leaf.Subject.CommonName != "front-proxy" {
			t.Fatal(first, err)
		}
		if again, err := present(nil); again != first {
			t.Error("a second certificate was issued", err)
		}
		time.Sleep(350 * 24 * time.Hour)
		if later, err := present(nil); err != nil || later == first || !time.Now().Before(later.Leaf.NotAfter) {
			t.Error("the certificate was not renewed", err)
		}
	})
}
