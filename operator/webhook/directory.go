package webhook

import (
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

	mu     sync.Mutex
	looked time.Time
	stamp  stamp
	cert   *tls.Certificate
	failed string // the text of the last error; empty if there was none since the last read
}

// DefaultDirectory returns the default directory of controller-runtime's webhook server.
func DefaultDirectory() string {
	return filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs")
}

// NewDirectory reads the certificate in certName and its key in keyName; tls.crt and tls.key if
// these are empty.
func NewDirectory(dir, certName, keyName string) (*Directory, error) {
	if certName == "" {
		certName = certKey
	}
	if keyName == "" {
		keyName = keyKey
	}
	d := &Directory{certFile: filepath.Join(dir, certName), keyFile: filepath.Join(dir, keyName)}
	if _, err := d.GetCertificate(nil); err != nil {
		return nil, err
	}
	return d, nil
}

// stamp identifies a version of the files.
type stamp struct {
	cert, key fileStamp
}

type fileStamp struct {
	changed time.Time
	size    int64
}

func (d *Directory) stampNow() (s stamp, err error) {
	for _, f := range []struct {
		name string
		into *fileStamp
	}{{d.certFile, &s.cert}, {d.keyFile, &s.key}} {
		// follows symbolic links: updates of a mounted Secret replace those
		info, err := os.Stat(f.name)
		if err != nil {
			return stamp{}, err
		}
		*f.into = fileStamp{info.ModTime(), info.Size()}
	}
	return s, nil
}

// GetCertificate returns the certificate in the files.
func (d *Directory) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cert != nil && time.Since(d.looked) < time.Second {
		return d.cert, nil
	}
	d.looked = time.Now()
	now, err := d.stampNow()
	if err == nil && d.cert != nil && now == d.stamp {
		d.failed = ""
		return d.cert, nil
	}
	first := d.cert == nil
	if err == nil {
		var cert tls.Certificate
		if cert, err = tls.LoadX509KeyPair(d.certFile, d.keyFile); err == nil {
			d.cert, d.stamp = &cert, now
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
