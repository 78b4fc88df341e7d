package flags

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/spf13/pflag"

	"kelson.dev/apiserver/store/etcd"
)

// Etcd are the flags of an etcd cluster.
type Etcd struct {
	Servers       []string
	Prefix        string
	CA, Cert, Key string
	Timeout       time.Duration
}

// AddFlags registers the flags. usage explains --etcd-servers.
func (o *Etcd) AddFlags(f *pflag.FlagSet, usage string) {
	f.StringSliceVar(&o.Servers, "etcd-servers", nil, usage)
	f.StringVar(&o.Prefix, "etcd-prefix", "/registry", "prefix of the keys in etcd")
	f.StringVar(&o.CA, "etcd-cafile", "", "authorities of etcd's serving certificates")
	f.StringVar(&o.Cert, "etcd-certfile", "", "client certificate for etcd")
	f.StringVar(&o.Key, "etcd-keyfile", "", "private key of the client certificate for etcd")
	f.DurationVar(&o.Timeout, "etcd-timeout", 10*time.Second,
		"timeout for connecting to etcd and for each request to it")
}

// Check returns an error if values are wrong. It accepts flags without servers.
func (o *Etcd) Check() error {
	if (o.Cert == "") != (o.Key == "") {
		return errors.New("--etcd-certfile and --etcd-keyfile must be given together")
	}
	if len(o.Servers) > 0 && o.Timeout <= 0 {
		return fmt.Errorf("--etcd-timeout %v: must be positive", o.Timeout)
	}
	for _, server := range o.Servers {
		if u, err := url.Parse(server); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("--etcd-servers %q: must be http or https URLs", server)
		}
	}
	return nil
}

// Open connects to the cluster. It reads the client certificate again for each connection. failed
// is that of etcd.Config.
func (o *Etcd) Open(ctx context.Context, failed func(error)) (*etcd.Log, error) {
	cfg := etcd.Config{Endpoints: o.Servers, Prefix: o.Prefix, Timeout: o.Timeout, Failed: failed}
	if o.CA != "" || o.Cert != "" {
		cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if o.CA != "" {
		data, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("read --etcd-cafile: %w", err)
		}
		if cfg.TLS.RootCAs = x509.NewCertPool(); !cfg.TLS.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("read --etcd-cafile: no certificate in %s", o.CA)
		}
	}
	if o.Cert != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
			return &pair, err
		}
		if _, err := load(); err != nil {
			return nil, fmt.Errorf("read --etcd-certfile: %w", err)
		}
		cfg.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return etcd.Open(ctx, cfg)
}
