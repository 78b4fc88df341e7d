package webhook

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Directory is Certificates in files that others make and renew, such as a mounted Secret. They are looked at when a client connects,
// once a second at most; new ones are used when they are complete, and until then the old ones.
type Directory struct {
	certFile, keyFile string

	mu     sync.Mutex
	looked time.Time
	stamp  stamp
	cert   *tls.Certificate
}

// DefaultDirectory is where the field expects certificates if nothing else is said.
func DefaultDirectory() string {
	return filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs")
}

// NewDirectory reads the certificate in certName and its key in keyName; tls.crt and tls.key if these are empty.
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

// stamp tells versions of the files apart.
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
		info, err := os.Stat(f.name) // through links: a mounted Secret changes those
		if err != nil {
			return stamp{}, err
		}
		*f.into = fileStamp{info.ModTime(), info.Size()}
	}
	return s, nil
}

// GetCertificate is the certificate in the files.
func (d *Directory) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cert != nil && time.Since(d.looked) < time.Second {
		return d.cert, nil
	}
	d.looked = time.Now()
	now, err := d.stampNow()
	if err == nil && (d.cert == nil || now != d.stamp) {
		var cert tls.Certificate
		if cert, err = tls.LoadX509KeyPair(d.certFile, d.keyFile); err == nil {
			d.cert, d.stamp = &cert, now
		}
	}
	if d.cert == nil {
		return nil, fmt.Errorf("read webhook certificate: %w", err)
	}
	return d.cert, nil // files that are half written are read again
}
