package main

import (
	"context"
	"crypto/tls"
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
	"k8s.io/klog/v2"

	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/serving"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/tokens"
)

// apiserverOptions are the flags of kube-apiserver that mean something here.
type apiserverOptions struct {
	bindAddress  string
	securePort   int
	certDir      string
	certFile     string
	keyFile      string
	serviceRange string
	gates        gates
}

// accepted are the flags of kube-apiserver that test suites set and that change nothing here yet. That they are accepted lets the
// suites start; what they ask for is not done.
var accepted = []string{
	"etcd-servers", "etcd-prefix",
	"feature-gates", "runtime-config", "advertise-address", "external-hostname", "watch-cache-sizes",
	"storage-backend", "event-ttl", "vmodule",
	"encryption-provider-config", // its state is in memory
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
	var s sections
	f := s.of("serving")
	// kube-apiserver's default is 0.0.0.0. This one is for tests on this machine, and allows everything to every known client by default.
	f.StringVar(&opts.bindAddress, "bind-address", "127.0.0.1", "address to listen on")
	f.IntVar(&opts.securePort, "secure-port", 6443, "port to listen on")
	f.StringVar(&opts.certDir, "cert-dir", "", "directory of apiserver.crt and apiserver.key, which are used if they are there")
	f.StringVar(&opts.certFile, "tls-cert-file", "", "serving certificate")
	f.StringVar(&opts.keyFile, "tls-private-key-file", "", "key of the serving certificate")
	f.StringVar(&opts.serviceRange, "service-cluster-ip-range", "", "CIDR of the cluster IPs of services, or two of different families with a comma")
	opts.gates.authorization.defaults = []string{authz.ModeAlwaysAllow}
	opts.gates.addFlags(&s)
	f = s.of("accepted")
	for _, name := range accepted {
		f.StringArray(name, nil, "accepted; changes nothing here")
	}
	f.Bool("allow-privileged", false, "accepted; changes nothing here")
	f.StringP("v", "v", "0", "accepted; changes nothing here")
	s.give(c)
	return c
}

func apiserver(ctx context.Context, opts apiserverOptions, errOut io.Writer) error {
	certificate, err := opts.certificate()
	if err != nil {
		return err
	}
	listener, err := serving.Listen(net.JoinHostPort(opts.bindAddress, strconv.Itoa(opts.securePort)))
	if err != nil {
		return err
	}
	defer listener.Close()
	warnUnlessLoopback(errOut, listener.Addr(), opts.gates.authorization.allowsAll())
	log := newLog(errOut, slog.LevelWarn)
	klog.SetSlogLogger(log)
	cfg := controlplane.Config{ServiceRange: opts.serviceRange, NoControllers: true, Log: log}
	cfg.ServiceAccounts.KeySetURL = "https://" + listener.Addr().String() + tokens.KeySetPath
	if err := opts.gates.apply(&cfg); err != nil {
		return err
	}
	defer opts.gates.close()
	plane, err := controlplane.Start(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return err
	}
	defer plane.Stop()
	server, err := serving.New(serving.Config{
		Listener: listener, Handler: plane.Handler(), Certificate: certificate, ClientCAs: plane.ClientCAs, Drain: plane.Drain, Log: log,
	})
	if err != nil {
		return err
	}
	return server.Run(ctx)
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
