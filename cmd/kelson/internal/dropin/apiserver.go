package dropin

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
	"time"

	"github.com/spf13/cobra"
	"k8s.io/component-base/version"

	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/serving"
	"kelson.dev/apiserver/serving/klogs"
	"kelson.dev/apiserver/serving/memory"
	"kelson.dev/cmd/kelson/internal/dropin/startup"
	"kelson.dev/cmd/kelson/internal/flags"
	"kelson.dev/cmd/kelson/internal/serve"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/tokens"
)

// linger is how long connections stay open after the last response. The clients of a test stay
// connected while it stops the server; a longer grace period would delay the end of each suite by a
// second.
const linger = 10 * time.Millisecond

// apiserverOptions are the flags of kube-apiserver that have an effect here.
type apiserverOptions struct {
	bindAddress  string
	securePort   int
	insecure     insecurePort
	certDir      string
	certFile     string
	keyFile      string
	serviceRange string
	gates        flags.Gates
	serving      flags.Serving
	endpoints    flags.Endpoints
	rest         flags.Rest
	values       func() map[string]string
}

// APIServerCommand returns kelson kube-apiserver: a control plane without controllers whose state
// is in memory, as envtest starts it.
func APIServerCommand() *cobra.Command {
	var opts apiserverOptions
	c := &cobra.Command{
		Use:     "kube-apiserver",
		Short:   "Replacement for the kube-apiserver that envtest starts",
		Example: "  kelson envtest   # prints the folder with the programs; envtest starts them",
		Args:    cobra.NoArgs,
		Version: version.Get().GitVersion, // with kube-apiserver's text
		RunE: func(c *cobra.Command, _ []string) error {
			return apiserver(c.Context(), opts, c.ErrOrStderr())
		},
	}
	c.SetVersionTemplate("Kubernetes {{.Version}}\n")
	var s flags.Sections
	f := s.Area("serving")
	// The default of kube-apiserver is 0.0.0.0. This server is for tests on one machine, and by
	// default it allows every authenticated client everything.
	f.StringVar(&opts.bindAddress, "bind-address", "127.0.0.1", "address to listen on")
	f.IntVar(&opts.securePort, "secure-port", 6443, "port to listen on")
	opts.insecure.addFlags(f)
	f.StringVar(&opts.certDir, "cert-dir", "",
		"directory with apiserver.crt and apiserver.key; used if the files exist")
	f.StringVar(&opts.certFile, "tls-cert-file", "", "serving certificate")
	f.StringVar(&opts.keyFile, "tls-private-key-file", "", "private key of the serving certificate")
	f.StringVar(&opts.serviceRange, "service-cluster-ip-range", "",
		"CIDR of the cluster IPs of Services, or two CIDRs of different families separated by a comma")
	// controller-runtime v0.8 and earlier pass --advertise-address=127.0.0.1
	opts.endpoints.Local = true
	opts.endpoints.AddFlags(f)
	opts.gates.Authorization.Defaults = []string{authz.ModeAlwaysAllow}
	opts.gates.AddFlags(&s)
	opts.serving.AddFlags(s.Area("requests"))
	opts.rest.AddFlags(&s)
	opts.values = s.Values
	s.AddTo(c)
	return c
}

func apiserver(ctx context.Context, opts apiserverOptions, errOut io.Writer) error {
	if err := opts.rest.Check(errOut); err != nil {
		return err
	}
	if err := opts.serving.Check(); err != nil {
		return err
	}
	certificate, err := opts.certificate()
	if err != nil {
		return err
	}
	listener, err := opts.serving.Listen(net.JoinHostPort(opts.bindAddress, strconv.Itoa(opts.securePort)))
	if err != nil {
		return err
	}
	defer listener.Close()
	insecure, err := opts.insecure.listen()
	if err != nil {
		return err
	}
	if insecure != nil {
		defer insecure.Close()
	}
	serve.WarnUnlessLoopback(errOut, listener.Addr(), opts.gates.Authorization.AllowsAll())
	log := serve.NewLog(errOut, slog.LevelWarn, opts.serving.JSONLog())
	klogs.Route(log.Handler())
	cfg := controlplane.Config{ServiceRange: opts.serviceRange, Controllers: controlplane.NoControllers{}, Flags: opts.values(), Log: log}
	cfg.ServiceAccounts.KeySetURL = "https://" + listener.Addr().String() + tokens.KeySetPath
	if err := opts.gates.Apply(&cfg); err != nil {
		return err
	}
	defer opts.gates.Close()
	opts.serving.Apply(&cfg)
	if err := opts.endpoints.Apply(&cfg, listener.Addr()); err != nil {
		return err
	}
	plane, err := controlplane.Start(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return err
	}
	defer plane.Stop()
	startup.Restore()
	handler, stopManaging := memory.Manage(plane.Handler(), plane.Store().Pack)
	defer stopManaging()
	listen := serving.Config{
		Listener: listener, Handler: handler, Certificate: certificate, ClientCAs: plane.ClientCAs,
		Stopping: plane.Stopping, Drain: plane.Drain, Linger: linger, Log: log,
	}
	if err := opts.serving.ApplyServer(&listen); err != nil {
		return err
	}
	server, err := serving.New(listen)
	if err != nil {
		return err
	}
	if insecure != nil {
		defer serveInsecurely(insecure, handler)()
	}
	return server.Run(ctx)
}

// certificate returns the certificate of the flags, the one in --cert-dir, or a new one for this
// run.
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
