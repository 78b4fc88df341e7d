package webhook

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Directory implements Certificates with externally managed files, such as a mounted Secret. On new
// connections, but at most once a second, it checks whether the files have changed. It uses new
// files once certificate and key match, and the old certificate until then.
type Directory struct {
	// OnRead, if not nil, is called after changed files were read, with the error that keeps the
	// old certificate in use; for the same error, once. It must not be changed once connections are
	// accepted.
	OnRead func(error)

	certFile, keyFile string

	mu      sync.Mutex
	looked  time.Time
	content contents // of cert
	cert    *tls.Certificate
	failed  string // the text of the last error; empty if there was none since the last read
}

// DefaultDirectory returns the default directory of controller-runtime's webhook server.
func DefaultDirectory() string {
	return filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs")
}

// NewDirectory reads the certificate in certName and its key in keyName; tls.crt and tls.key if
// these are empty.
func NewDirectory(dir, certName, keyName string) (*Directory, error) {
	certName = cmp.Or(certName, certKey)
	keyName = cmp.Or(keyName, keyKey)
	d := &Directory{certFile: filepath.Join(dir, certName), keyFile: filepath.Join(dir, keyName)}
	if _, err := d.GetCertificate(nil); err != nil {
		return nil, err
	}
	return d, nil
}

// contents are the contents of the two files. Their times and sizes may be equal although the
// content is not: certificates of one issuer have the same size, and tools that copy files keep
// their times.
type contents struct {
	cert, key []byte
}

func (p contents) equal(other contents) bool {
	return bytes.Equal(p.cert, other.cert) && bytes.Equal(p.key, other.key)
}

func (d *Directory) read() (p contents, err error) {
	if p.cert, err = os.ReadFile(d.certFile); err == nil {
		p.key, err = os.ReadFile(d.keyFile)
	}
	return p, err
}

// GetCertificate returns the certificate in the files.
func (d *Directory) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cert != nil && time.Since(d.looked) < time.Second {
		return d.cert, nil
	}
	d.looked = time.Now()
	now, err := d.read()
	if err == nil && d.cert != nil && now.equal(d.content) {
		if d.failed != "" {
			d.report(nil)
		}
		return d.cert, nil
	}
	first := d.cert == nil
	if err == nil {
		var cert tls.Certificate
		if cert, err = tls.X509KeyPair(now.cert, now.key); err == nil {
			d.cert, d.content = &cert, now
		}
	}
	if err != nil {
		err = fmt.Errorf("read certificate %s: %w", d.certFile, err)
	}
	if first {
		return d.cert, err
	}
	d.report(err)
	return d.cert, nil // partially written files are read again later
}

// report calls OnRead unless it was called with the same error before. The caller holds the lock.
func (d *Directory) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if d.OnRead != nil && (err == nil || text != d.failed) {
		d.OnRead(err)
	}
	d.failed = text
}
