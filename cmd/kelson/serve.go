package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"kelson.dev/apiserver/serving"
	"kelson.dev/kubernetes/controllers/workloads"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/ephemeral"
	"kelson.dev/kubernetes/node/process"
	"kelson.dev/kubernetes/tokens"
)

// serveOptions are the flags of serve, shared by dev.
type serveOptions struct {
	state       stateOptions
	bindAddress string
	securePort  int
	kubeconfig  string
	node        string
	workloads   bool
	verbose     bool
	planes      planesOptions
	gates       gates
	signing     signingFlags
	pods        podFlags
	withStdin   bool
}

func serveCommand() *cobra.Command {
	var opts serveOptions
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a control plane by itself, for any client",
		Long: `Run a control plane by itself, for any client.

What is written is durable unless --in-memory is given: an acknowledged write
survives a crash at any instant. The control plane has a certificate authority
of its own; the kubeconfig it writes is that of an administrator. It ends on
SIGTERM or Ctrl-C after the requests in hand are answered.`,
		Example: `  kelson serve
  kelson serve --in-memory --secure-port 0 --kubeconfig /tmp/kubeconfig
  kelson serve --data-dir ./state --node=process
  kelson serve --in-memory --planes 100
  kelson kubectl create --raw /planes -f /dev/null   # a throwaway control plane: its URL and kubeconfig`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			if opts.withStdin {
				var cancel context.CancelFunc
				ctx, cancel = whileOpen(ctx, c.InOrStdin())
				defer cancel()
			}
			return serve(ctx, opts, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	var s sections
	opts.state.addFlags(s.of("state"))
	f := s.of("serving")
	f.StringVar(&opts.bindAddress, "bind-address", "127.0.0.1", "address to listen on")
	f.IntVar(&opts.securePort, "secure-port", 6443, "port to listen on; 0 picks a free one")
	f.StringVar(&opts.kubeconfig, "kubeconfig", "", "file to write the administrator's kubeconfig to (default \"kubeconfig\" in the data directory)")
	f.StringVar(&opts.node, "node", string(controlplane.NodeSimulated), "what runs pods: simulated, process (really runs their commands on this machine) or none")
	opts.pods.addUsersFlag(f)
	opts.pods.addUnconfinedFlag(f)
	f.BoolVar(&opts.workloads, "workloads", true, "make pods of Deployments, StatefulSets, Jobs and their like, and endpoints of Services")
	f.BoolVarP(&opts.verbose, "verbose", "v", false, "log what the control plane does")
	f.BoolVar(&opts.withStdin, "exit-with-stdin", false, "end when standard input does, as it does when the program at its other end was killed")
	opts.planes.addFlags(f)
	opts.gates.addFlags(&s)
	opts.signing.addFlags(s.of("signing"))
	s.give(c)
	return c
}

// defaultDataDir is the state's place in the user's data folder.
func defaultDataDir() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "kelson")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return filepath.Join(os.TempDir(), "kelson")
	}
	return filepath.Join(home, ".local", "share", "kelson")
}

func serve(ctx context.Context, opts serveOptions, out, errOut io.Writer) error {
	begin := time.Now()
	p, err := startPlane(ctx, opts, errOut)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "kelson serves Kubernetes %s at %s, kubeconfig %s, ready in %s\n",
		controlplane.KubernetesVersion, p.server.URL(), p.kubeconfig, time.Since(begin).Round(100*time.Microsecond))
	return p.run(ctx)
}

// plane is a control plane on a port.
type plane struct {
	*controlplane.ControlPlane
	server     *serving.Server
	throwaway  *ephemeral.Planes // nil: none are handed out
	kubeconfig string
	cleanup    []func() error // in the order of what was made
}

// startPlane starts what the options ask for; nothing is left behind when it fails.
func startPlane(ctx context.Context, opts serveOptions, errOut io.Writer) (_ *plane, err error) {
	p := &plane{}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	node, err := controlplane.ParseNode(opts.node)
	if err != nil {
		return nil, err
	}
	if opts.securePort < 0 || opts.securePort > 65535 {
		return nil, fmt.Errorf("--secure-port %d: must be between 0 and 65535", opts.securePort)
	}
	if err := opts.planes.check(); err != nil {
		return nil, err
	}
	if err := opts.state.check(); err != nil {
		return nil, err
	}
	level := slog.LevelWarn
	if opts.verbose {
		level = slog.LevelDebug
	}
	log := newLog(errOut, level)
	klog.SetSlogLogger(slog.New(workloads.Debugging(log.Handler()))) // some of what the controllers say goes there

	// The port comes first: a busy one leaves nothing behind.
	listener, err := serving.Listen(net.JoinHostPort(opts.bindAddress, strconv.Itoa(opts.securePort)))
	if errors.Is(err, serving.ErrPortInUse) {
		return nil, fmt.Errorf("%w: choose another with --secure-port (0 picks a free one)", err)
	}
	if err != nil {
		return nil, err
	}
	p.cleanup = append(p.cleanup, func() error { listener.Close(); return nil })
	warnUnlessLoopback(errOut, listener.Addr(), opts.gates.authorization.allowsAll())

	var cfg controlplane.Config
	state, err := opts.state.open(ctx, &cfg, log)
	p.cleanup = append(p.cleanup, state.cleanup...)
	if err != nil {
		return nil, err
	}
	dir, authority := state.dir, state.authority

	var handler lateHandler
	p.server, err = serving.New(serving.Config{
		Listener:    listener,
		Handler:     &handler,
		Certificate: authority.Serving(listener.Addr().(*net.TCPAddr).IP.String()),
		ClientCAs:   func() *x509.CertPool { return p.ClientCAs() },
		Drain:       func(ctx context.Context) error { return p.drain(ctx) },
		Log:         log,
	})
	if err != nil {
		return nil, err
	}
	// The plane outlives ctx: it ends after the requests in hand are drained.
	cfg.ClientCAs, cfg.RootCA, cfg.Authority = authority.Pool(), authority.PEM, authority
	cfg.Node, cfg.NodeDir, cfg.Workloads = node, filepath.Join(dir, "node"), opts.workloads
	cfg.ServiceAccounts = controlplane.ServiceAccounts{Key: state.tokenKey, KeySetURL: p.server.URL() + tokens.KeySetPath}
	cfg.Log = log
	if err := opts.signing.apply(&cfg); err != nil {
		return nil, err
	}
	if err := opts.gates.apply(&cfg); err != nil {
		return nil, err
	}
	p.cleanup = append(p.cleanup, opts.gates.close)
	p.kubeconfig = opts.kubeconfig
	if p.kubeconfig == "" {
		p.kubeconfig = filepath.Join(dir, "kubeconfig")
	}
	if err := opts.pods.check(node, acceptsOthers(&opts, &cfg)); err != nil {
		return nil, err
	}
	opts.pods.apply(&cfg, dir, p.kubeconfig)
	p.ControlPlane, err = controlplane.Start(context.WithoutCancel(ctx), cfg)
	if errors.Is(err, process.ErrNotConfined) && opts.pods.mayFallBack {
		cfg.NodeUnconfined = true
		p.ControlPlane, err = controlplane.Start(context.WithoutCancel(ctx), cfg)
	}
	if err != nil {
		return nil, opts.pods.explain(err)
	}
	if warning := podWarning(p.PodConfinement()); warning != "" {
		fmt.Fprintln(errOut, warning)
	}
	p.cleanup = append(p.cleanup, func() error { p.ControlPlane.Stop(); return nil })
	collect := newCollector()
	p.cleanup = append(p.cleanup, func() error { collect.stop(); return nil })
	handler.Handler = collect.around(p.ControlPlane.Handler())
	if opts.planes.max > 0 {
		if p.throwaway, err = newPlanes(opts.planes, cfg, dir, authority, log); err != nil {
			return nil, err
		}
		p.cleanup = append(p.cleanup, func() error { p.throwaway.Close(); return nil })
		handler.Handler = withPlanes(p.throwaway, handler.Handler)
	}

	if err := writeKubeconfig(p.kubeconfig, p.server.URL(), authority); err != nil {
		return nil, err
	}
	return p, nil
}

// run serves until ctx ends, then drains and closes everything.
func (p *plane) run(ctx context.Context) error {
	err := p.server.Run(ctx)
	return errors.Join(err, p.close())
}

// drain ends the watches and waits for the short requests of all control planes.
func (p *plane) drain(ctx context.Context) error {
	var err error
	if p.throwaway != nil {
		err = p.throwaway.Drain(ctx)
	}
	return errors.Join(err, p.ControlPlane.Drain(ctx))
}

func (p *plane) close() error {
	var errs []error
	for i := len(p.cleanup) - 1; i >= 0; i-- {
		errs = append(errs, p.cleanup[i]())
	}
	return errors.Join(errs...)
}
