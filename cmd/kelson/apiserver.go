package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"kelson.dev/server/controlplane"
	"kelson.dev/server/https"
	"kelson.dev/server/pki"
)

// apiserverOptions are the flags of kube-apiserver that mean something here.
type apiserverOptions struct {
	bindAddress  string
	securePort   int
	certDir      string
	certFile     string
	keyFile      string
	clientCA     string
	serviceRange string
	// Of the tokens of service accounts.
	tokenIssuers    []string
	tokenAudiences  []string
	tokenKeyFiles   []string
	tokenSigningKey string
	gates           gates
}

// accepted are the flags of kube-apiserver that test suites set and that change nothing here yet. That they are accepted lets the
// suites start; what they ask for is not done.
var accepted = []string{
	"etcd-servers", "etcd-prefix", "authorization-mode",
	"feature-gates", "runtime-config", "audit-log-path", "audit-log-maxage", "audit-log-maxbackup", "audit-log-maxsize",
	"audit-policy-file", "advertise-address", "external-hostname", "requestheader-client-ca-file", "requestheader-username-headers",
	"requestheader-group-headers", "requestheader-extra-headers-prefix", "requestheader-allowed-names", "watch-cache-sizes",
	"storage-backend", "max-requests-inflight", "max-mutating-requests-inflight", "event-ttl", "vmodule",
}

func apiserverCommand() *cobra.Command {
	var opts apiserverOptions
	c := &cobra.Command{
		Use:   "kube-apiserver",
		Short: "Stands in for kube-apiserver where envtest starts one",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return apiserver(c.Context(), opts, c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&opts.bindAddress, "bind-address", "0.0.0.0", "address to listen on")
	f.IntVar(&opts.securePort, "secure-port", 6443, "port to listen on")
	f.StringVar(&opts.certDir, "cert-dir", "", "directory of apiserver.crt and apiserver.key, which are used if they are there")
	f.StringVar(&opts.certFile, "tls-cert-file", "", "serving certificate")
	f.StringVar(&opts.keyFile, "tls-private-key-file", "", "key of the serving certificate")
	f.StringVar(&opts.clientCA, "client-ca-file", "", "authorities of client certificates")
	f.StringVar(&opts.serviceRange, "service-cluster-ip-range", "", "CIDR of the cluster IPs of services")
	f.StringArrayVar(&opts.tokenIssuers, "service-account-issuer", nil, "issuer of service account tokens; the first is written into them, all are accepted")
	f.StringSliceVar(&opts.tokenAudiences, "api-audiences", nil, "names of this server in tokens (default: the issuers)")
	f.StringArrayVar(&opts.tokenKeyFiles, "service-account-key-file", nil, "keys whose service account tokens are accepted")
	f.StringVar(&opts.tokenSigningKey, "service-account-signing-key-file", "", "key that signs service account tokens (default: one made for this run)")
	opts.gates.addFlags(f)
	for _, name := range accepted {
		f.StringArray(name, nil, "accepted; changes nothing here")
	}
	f.Bool("allow-privileged", false, "accepted; changes nothing here")
	f.Bool("anonymous-auth", true, "accepted; changes nothing here")
	f.StringP("v", "v", "0", "accepted; changes nothing here")
	return c
}

func apiserver(ctx context.Context, opts apiserverOptions, errOut io.Writer) error {
	certificate, err := opts.certificate()
	if err != nil {
		return err
	}
	var clientCAs *x509.CertPool
	if opts.clientCA != "" {
		data, err := os.ReadFile(opts.clientCA)
		if err != nil {
			return fmt.Errorf("read --client-ca-file: %w", err)
		}
		if clientCAs = x509.NewCertPool(); !clientCAs.AppendCertsFromPEM(data) {
			return fmt.Errorf("read --client-ca-file: no certificate in %s", opts.clientCA)
		}
	}
	accounts, err := opts.serviceAccounts()
	if err != nil {
		return err
	}
	listener, err := https.Listen(net.JoinHostPort(opts.bindAddress, strconv.Itoa(opts.securePort)))
	if err != nil {
		return err
	}
	defer listener.Close()
	log := slog.New(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg := controlplane.Config{
		ClientCAs: clientCAs, ServiceRange: opts.serviceRange, ServiceAccounts: accounts, NoControllers: true, Log: log,
	}
	if err := opts.gates.apply(&cfg); err != nil {
		return err
	}
	plane, err := controlplane.Start(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return err
	}
	defer plane.Stop()
	server, err := https.New(https.Config{
		Listener: listener, Handler: plane.Handler(), Certificate: certificate, ClientCAs: clientCAs, Drain: plane.Drain, Log: log,
	})
	if err != nil {
		return err
	}
	return server.Run(ctx)
}

// serviceAccounts reads the keys of service account tokens.
func (o *apiserverOptions) serviceAccounts() (controlplane.ServiceAccounts, error) {
	accounts := controlplane.ServiceAccounts{Issuers: o.tokenIssuers, Audiences: o.tokenAudiences}
	var err error
	if o.tokenSigningKey != "" {
		if accounts.Key, err = pki.ReadKey(o.tokenSigningKey); err != nil {
			return accounts, fmt.Errorf("--service-account-signing-key-file: %w", err)
		}
	}
	for _, file := range o.tokenKeyFiles {
		keys, err := pki.ReadPublicKeys(file)
		if err != nil {
			return accounts, fmt.Errorf("--service-account-key-file: %w", err)
		}
		accounts.Keys = append(accounts.Keys, keys...)
	}
	return accounts, nil
}

// certificate is the one given, the one that lies in --cert-dir, or one made for this run.
func (o *apiserverOptions) certificate() (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	if o.certFile != "" || o.keyFile != "" {
		return pki.Files(o.certFile, o.keyFile)
	}
	if o.certDir != "" {
		cert, key := filepath.Join(o.certDir, "apiserver.crt"), filepath.Join(o.certDir, "apiserver.key")
		if _, err := os.Stat(cert); err == nil {
			return pki.Files(cert, key)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read --cert-dir: %w", err)
		}
	}
	authority, err := pki.NewAuthority("kelson-ca")
	if err != nil {
		return nil, err
	}
	return authority.Serving(o.bindAddress), nil
}
