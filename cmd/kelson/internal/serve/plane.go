package serve

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/serving"
	"kelson.dev/apiserver/serving/klogs"
	"kelson.dev/apiserver/serving/memory"
	page "kelson.dev/console"
	"kelson.dev/kubernetes/controllers/workloads"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/ephemeral"
	"kelson.dev/kubernetes/node/process"
	"kelson.dev/kubernetes/tokens"
)

// kubeletClientName is the user name with which this server calls kubelets; clusters made by
// kubeadm use the same name.
const kubeletClientName = "kube-apiserver-kubelet-client"

// linger is how long connections stay open after the last response. Clients with idle HTTP/2
// connections would delay the end by a second.
const linger = 100 * time.Millisecond

// Plane is a control plane on a port.
type Plane struct {
	*controlplane.ControlPlane
	// Kubeconfig is the file with the administrator's kubeconfig.
	Kubeconfig string

	from      string         // says which moment of a history is served; "" if the state is its own
	moment    *page.Moment   // of the past state; nil if the state is not from a history
	node      *containerNode // nil without --node=containers
	authority *pki.Authority
	server    *serving.Server
	throwaway *ephemeral.Planes // nil if --planes is 0
	cleanup   []func() error    // in the order of creation
}

// Start starts a control plane with the options and writes warnings to errOut. The caller must call
// Run. If Start returns an error, it has released everything.
func Start(ctx context.Context, opts Options, errOut io.Writer) (_ *Plane, err error) {
	p := &Plane{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	var nodeProgram string
	if opts.Node == nodeContainers {
		if nodeProgram, err = opts.prepareContainers(); err != nil {
			return nil, err
		}
		opts.Node = string(controlplane.NodeNone)
	}
	node, err := controlplane.ParseNode(opts.Node)
	if err != nil {
		return nil, err
	}
	if opts.SecurePort < 0 || opts.SecurePort > 65535 {
		return nil, fmt.Errorf("--secure-port %d: must be between 0 and 65535", opts.SecurePort)
	}
	if err := opts.planes.check(); err != nil {
		return nil, err
	}
	if err := opts.state.check(); err != nil {
		return nil, err
	}
	if opts.flagged {
		if err := opts.requests.Check(); err != nil {
			return nil, err
		}
	} else if err := opts.requests.CheckVersion(); err != nil {
		return nil, err
	}
	var cluster controlplane.Config
	if err := opts.cluster(&cluster, errOut); err != nil {
		return nil, err
	}
	level := slog.LevelWarn
	if opts.Verbose {
		level = slog.LevelDebug
	}
	log := NewLog(errOut, level, opts.requests.JSONLog())
	// Kubernetes' controllers log through klog
	klogs.Route(workloads.Debugging(log.Handler()))

	// Listen before anything is created, so that no files remain if the port is in use.
	listener, err := opts.requests.Listen(net.JoinHostPort(opts.bindAddress, strconv.Itoa(opts.SecurePort)))
	if errors.Is(err, serving.ErrPortInUse) {
		return nil, fmt.Errorf("%w: choose another with --secure-port (0 picks a free one)", err)
	}
	if err != nil {
		return nil, err
	}
	p.cleanup = append(p.cleanup, func() error { listener.Close(); return nil })
	WarnUnlessLoopback(errOut, listener.Addr(), opts.gates.Authorization.AllowsAll())

	cfg := cluster
	opts.requests.ApplyVersion(&cfg)
	state, err := opts.state.open(ctx, &cfg, log)
	p.cleanup = append(p.cleanup, state.cleanup...)
	if err != nil {
		return nil, err
	}
	dir, authority := state.dir, state.authority
	for _, note := range state.notes {
		fmt.Fprintln(errOut, "note:", note)
	}

	if opts.flagged {
		if err := opts.endpoints.Apply(&cfg, listener.Addr()); err != nil {
			return nil, err
		}
	}
	hosts, err := servingHosts(&cfg, listener.Addr().(*net.TCPAddr).IP, opts.names)
	if err != nil {
		return nil, err
	}
	var handler lateHandler
	listen := serving.Config{
		Listener:    listener,
		Handler:     &handler,
		Certificate: authority.Serving(hosts...),
		ClientCAs:   func() *x509.CertPool { return p.ClientCAs() },
		Stopping: func() {
			state.stopping()
			p.Stopping()
		},
		Drain:  func(ctx context.Context) error { return p.drain(ctx) },
		Linger: linger,
		Log:    log,
	}
	if opts.flagged {
		if err := opts.requests.ApplyServer(&listen); err != nil {
			return nil, err
		}
		opts.requests.Apply(&cfg)
		cfg.Flags = opts.values()
	}
	p.server, err = serving.New(listen)
	if err != nil {
		return nil, err
	}
	cfg.ClientCAs, cfg.RootCA, cfg.Authority = authority.Pool(), authority.PEM, authority
	cfg.Node, cfg.NodeDir, cfg.Workloads = node, filepath.Join(dir, "node"), opts.workloads
	cfg.ServiceAccounts = controlplane.ServiceAccounts{Key: state.tokenKey, KeySetURL: keySetURL(p.URL(), listener.Addr(), cfg.Endpoints.Address)}
	cfg.Log = log
	if err := opts.signing.Apply(&cfg); err != nil {
		return nil, err
	}
	if err := opts.gates.Apply(&cfg); err != nil {
		return nil, err
	}
	p.cleanup = append(p.cleanup, opts.gates.Close)
	if nodeProgram != "" {
		cfg.Authentication.AcceptBootstrapTokens = true
		p.authority = authority
		p.node = &containerNode{
			program: nodeProgram, dir: filepath.Join(dir, "node"), server: "https://" + cfg.Endpoints.Address.String(), args: opts.nodeArgs, errOut: errOut,
			services: opts.services,
		}
		if !cfg.Endpoints.Address.IsValid() {
			return nil, errors.New("--node=containers: this machine has only loopback addresses: pass --advertise-address")
		}
	}
	p.Kubeconfig = opts.Kubeconfig
	if p.Kubeconfig == "" {
		p.Kubeconfig = filepath.Join(dir, "kubeconfig")
	}
	if err := opts.pods.check(node, otherUsers(&opts, &cfg)); err != nil {
		return nil, err
	}
	if err := opts.pods.apply(&cfg, dir, p.Kubeconfig); err != nil {
		return nil, err
	}
	cfg.NodeServer = strings.TrimPrefix(p.URL(), "https://")
	if err := addFrontProxy(dir, &cfg); err != nil {
		return nil, err
	}
	if cfg.Authentication.AcceptBootstrapTokens {
		admitNodes(&cfg, authority)
	}
	if cfg.Kubelets.Certificate == nil {
		cfg.Kubelets.Certificate = authority.ClientCertificate(kubeletClientName, user.SystemPrivilegedGroup)
	}
	// The control plane outlives ctx: it stops after the requests in flight are drained.
	if opts.state.past.readOnly() {
		cfg.NoControllers, cfg.RootCA, cfg.Endpoints = true, nil, controlplane.Endpoints{}
	}
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
	var stopManaging func()
	handler.Handler, stopManaging = memory.Manage(p.ControlPlane.Handler(), p.ControlPlane.Store().Pack)
	p.cleanup = append(p.cleanup, func() error { stopManaging(); return nil })
	if state.from != "" {
		p.moment = &page.Moment{Revision: state.revision, Time: state.when, Fork: opts.state.past.fork}
	}
	switch {
	case opts.state.past.readOnly():
		p.from = "read-only: " + state.from
		handler.Handler = p.keepPast(state, handler.Handler, errOut)
	case state.from != "":
		p.from = "continues from " + state.from
	}
	if opts.planes.max > 0 {
		if p.throwaway, err = newPlanes(opts.planes, cfg, dir, authority, log); err != nil {
			return nil, err
		}
		p.cleanup = append(p.cleanup, func() error { p.throwaway.Close(); return nil })
		handler.Handler = withPlanes(p.throwaway, handler.Handler)
	}

	if err := writeKubeconfig(p.Kubeconfig, p.URL(), authority); err != nil {
		return nil, err
	}
	return p, nil
}

// URL returns the base URL of the server.
func (p *Plane) URL() string { return p.server.URL() }

// keySetURL returns where pods and other machines read the keys of service accounts' tokens. The
// URL of a server that listens on all addresses is for its own machine.
func keySetURL(url string, listening net.Addr, advertised netip.AddrPort) string {
	if tcp, ok := listening.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() && advertised.IsValid() {
		url = "https://" + advertised.String()
	}
	return url + tokens.KeySetPath
}

// Run serves until ctx ends, then drains requests and closes everything.
func (p *Plane) Run(ctx context.Context) error {
	err := p.withNode(ctx, p.server.Run)
	return errors.Join(err, p.close())
}

// drain ends the watches and waits for the short requests of all control planes.
func (p *Plane) drain(ctx context.Context) error {
	var err error
	if p.throwaway != nil {
		err = p.throwaway.Drain(ctx)
	}
	return errors.Join(err, p.ControlPlane.Drain(ctx))
}

func (p *Plane) close() error {
	var errs []error
	for i := len(p.cleanup) - 1; i >= 0; i-- {
		errs = append(errs, p.cleanup[i]())
	}
	return errors.Join(errs...)
}
