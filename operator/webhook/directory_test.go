package webhook_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/webhook"
)

// pair returns a certificate with a name, and its key.
func pair(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	must(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// Changed files are used when they are complete. Until then, the old certificate is, and the error
// is reported once.
func TestDirectoryThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
		changed := time.Now() // all versions have the same time, as with tools that copy files
		write := func(file string, data []byte) {
			t.Helper()
			must(t, os.WriteFile(file, data, 0o600))
			must(t, os.Chtimes(file, changed, changed))
		}
		// mounts writes a version of a volume, and replaces the link to it, as kubelet does
		mounted := 0
		mount := func(certData, keyData []byte) {
			t.Helper()
			mounted++
			version := filepath.Join(dir, "v"+string(rune('0'+mounted)))
			must(t, os.Mkdir(version, 0o700))
			write(filepath.Join(version, "tls.crt"), certData)
			write(filepath.Join(version, "tls.key"), keyData)
			must(t, os.Symlink(version, filepath.Join(dir, "..next")))
			must(t, os.Rename(filepath.Join(dir, "..next"), filepath.Join(dir, "..data")))
		}

		a, aKey := pair(t, "a")
		write(cert, a)
		_, err := webhook.NewDirectory(dir, "", "")
		assert.ErrorContainsf(t, err, "tls.key", "without a key")
		write(key, aKey)
		d, err := webhook.NewDirectory(dir, "", "")
		must(t, err)
		var reports []string
		d.OnRead = func(err error) {
			if reports = append(reports, "read"); err != nil {
				reports[len(reports)-1] = err.Error()
			}
		}
		want := func(when, name string, wanted ...string) {
			t.Helper()
			reports = nil
			for range 3 { // later, the files are not read again
				time.Sleep(time.Second)
				c, err := d.GetCertificate(nil)
				must(t, err)
				assert.Equalf(t, c.Leaf.Subject.CommonName, name, "%s: the certificate", when)
			}
			if len(reports) != len(wanted) {
				t.Fatalf("%s: reported %q, want %q", when, reports, wanted)
			}
			for n, text := range wanted {
				assert.Containsf(t, reports[n], text, "%s: reported %q, want %q", when, reports, wanted)
			}
		}
		want("at first", "a")
		b, bKey := pair(t, "b")
		write(cert, b[:len(b)/2])
		want("half of a certificate", "a", "failed to find any PEM data in certificate input")
		write(cert, b)
		want("without its key", "a", "does not match")
		must(t, os.Remove(key))
		want("no key", "a", "no such file")
		write(key, bKey)
		want("complete", "b", "read")
		write(key, nil)
		want("empty key", "b", "failed to find any PEM data in key input")
		write(key, bKey)
		want("the same key again", "b", "read")

		c, cKey := pair(t, "c")
		mount(c, cKey)
		for _, file := range []string{cert, key} {
			must(t, os.Remove(file))
			must(t, os.Symlink(filepath.Join("..data", filepath.Base(file)), file))
		}
		want("mounted", "c", "read")
		mount(b, cKey)
		want("another one, with the wrong key", "c", "does not match")
		mount(b, bKey)
		want("with its key", "b", "read")
	})
}
