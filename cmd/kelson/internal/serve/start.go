package serve

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/serving"
	"kelson.dev/apiserver/serving/klogs"
	"kelson.dev/apiserver/serving/memory"
	page "kelson.dev/console"
	"kelson.dev/kubernetes/controllers/workloads"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/node/process"
)

// kubeletClientName is the user name with which this server calls kubelets; clusters made by
// kubeadm use the same name.
const kubeletClientName = "kube-apiserver-kubelet-client"

// linger is how long connections stay open after the last response. Clients with idle HTTP/2
// connections would delay the end by a second.
const linger = 100 * time.Millisecond

// Start starts a control plane with the options and writes warnings to errOut. The caller must call
// Run. If Start returns an error, it has released everything.
func Start(ctx context.Context, opts Options, errOut io.Writer) (_ *Plane, err error) {
	s := &start{Plane: &Plane{}, opts: &opts, errOut: errOut}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := s.check(); err != nil {
		return nil, err
	}
	// Listen before anything is created, so that no files remain if the port is in use.
	if err := s.listen(); err != nil {
		return nil, err
	}
	if err := s.openState(ctx); err != nil {
		return nil, err
	}
	if err := s.newServer(); err != nil {
		return nil, err
	}
	if err := s.configure(); err != nil {
		return nil, err
	}
	// The control plane outlives ctx: it stops after the requests in flight are drained.
	if err := s.startControlPlane(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	s.addHandlers()
	if err := provideKubeconfig(s.Kubeconfig, s.URL(), s.state.authority, s.log); err != nil {
		return nil, err
	}
	return s.Plane, nil
}

// start holds what the steps of Start pass on. They add to the cleanup of the Plane.
type start struct {
	*Plane
	opts   *Options
	errOut io.Writer
	log    *slog.Logger

	nodeProgram string // of --node=containers
	cfg         controlplane.Config
	listener    net.Listener
	state       *state
	handler     lateHandler
}

// onClose adds to the cleanup of the Plane.
func (s *start) onClose(f func()) {
	s.cleanup = append(s.cleanup, func() error { f(); return nil })
}

// check checks the options and begins the configuration and the log.
func (s *start) check() (err error) {
	opts := s.opts
	if opts.Node == nodeContainers {
		if s.nodeProgram, err = opts.prepareContainers(); err != nil {
			return err
		}
		opts.Node = nodeNone
	}
	if _, err := parseNode(opts.Node); err != nil {
		return fmt.Errorf("--node=%s: must be %s, %s, %s or %s", opts.Node, nodeNone, nodeSimulated, nodeProcess,
			nodeContainers)
	}
	if opts.Kubeconfig != "" {
		if err := checkKubeconfig(opts.Kubeconfig); err != nil {
			return err
		}
	}
	if opts.SecurePort < 0 || opts.SecurePort > 65535 {
		return fmt.Errorf("--secure-port %d: must be between 0 and 65535", opts.SecurePort)
	}
	if err := opts.planes.check(); err != nil {
		return err
	}
	if err := opts.state.check(); err != nil {
		return err
	}
	if opts.flagged {
		err = opts.requests.Check()
	} else {
		err = opts.requests.CheckVersion()
	}
	if err != nil {
		return err
	}
	if err := opts.cluster(&s.cfg, s.errOut); err != nil {
		return err
	}
	level := slog.LevelWarn
	if opts.Verbose {
		level = slog.LevelDebug
	}
	s.log = NewLog(s.errOut, level, opts.requests.JSONLog())
	klogs.Route(workloads.Debugging(s.log.Handler())) // Kubernetes' controllers log through klog
	return nil
}

func (s *start) listen() (err error) {
	s.listener, err = s.opts.requests.Listen(net.JoinHostPort(s.opts.bindAddress, strconv.Itoa(s.opts.SecurePort)))
	if errors.Is(err, serving.ErrPortInUse) {
		return fmt.Errorf("%w: choose another with --secure-port (0 picks a free one)", err)
	}
	if err != nil {
		return err
	}
	s.onClose(func() { s.listener.Close() })
	WarnUnlessLoopback(s.errOut, s.listener.Addr(), s.opts.gates.Authorization.AllowsAll())
	return nil
}

// openState opens the state, on disk, in memory, in etcd or of a history.
func (s *start) openState(ctx context.Context) (err error) {
	s.opts.requests.ApplyVersion(&s.cfg)
	s.state, err = s.opts.state.open(ctx, &s.cfg, s.log)
	s.cleanup = append(s.cleanup, s.state.cleanup...)
	if err != nil {
		return err
	}
	for _, note := range s.state.notes {
		fmt.Fprintln(s.errOut, "note:", note)
	}
	if s.state.from != "" {
		s.moment = &page.Moment{Revision: s.state.revision, Time: s.state.when, Fork: s.opts.state.past.fork}
	}
	return nil
}

// newServer creates the HTTPS server. Its handler is set later.
func (s *start) newServer() (err error) {
	if s.opts.flagged {
		if err := s.opts.endpoints.Apply(&s.cfg, s.listener.Addr()); err != nil {
			return err
		}
	}
	hosts, err := servingHosts(&s.cfg, s.listener.Addr().(*net.TCPAddr).IP, s.opts.names)
	if err != nil {
		return err
	}
	cfg := serving.Config{
		Listener:    s.listener,
		Handler:     &s.handler,
		Certificate: s.state.authority.Serving(hosts...),
		ClientCAs:   func() *x509.CertPool { return s.ClientCAs() },
		Stopping: func() {
			s.state.stopping()
			s.Stopping()
		},
		Drain:  s.drain,
		Linger: linger,
		Log:    s.log,
	}
	if s.opts.flagged {
		if err := s.opts.requests.ApplyServer(&cfg); err != nil {
			return err
		}
		s.opts.requests.Apply(&s.cfg)
		s.cfg.Flags = s.opts.values()
	}
	s.server, err = serving.New(cfg)
	return err
}

// configure completes the configuration of the control plane.
func (s *start) configure() error {
	opts, cfg, dir, authority := s.opts, &s.cfg, s.state.dir, s.state.authority
	cfg.ClientCAs, cfg.RootCA, cfg.Authority = authority.Pool(), authority.PEM, authority
	nodeDir := filepath.Join(dir, "node")
	cfg.ServiceAccounts = controlplane.ServiceAccounts{
		Key: s.state.tokenKey, KeySetURL: keySetURL(s.URL(), s.listener.Addr(), cfg.Endpoints.Address),
	}
	cfg.Log = s.log
	if err := opts.signing.Apply(cfg); err != nil {
		return err
	}
	if err := opts.gates.Apply(cfg); err != nil {
		return err
	}
	s.cleanup = append(s.cleanup, opts.gates.Close)
	if s.nodeProgram != "" {
		if !cfg.Endpoints.Address.IsValid() {
			return errors.New("--node=containers: this machine has only loopback addresses: pass --advertise-address")
		}
		cfg.Authentication.AcceptBootstrapTokens = true
		s.authority = authority
		s.node = &containerNode{
			program: s.nodeProgram, dir: nodeDir, server: "https://" + cfg.Endpoints.Address.String(),
			args: opts.nodeArgs, errOut: s.errOut,
			services: opts.services,
		}
	}
	s.Kubeconfig = opts.Kubeconfig
	if s.Kubeconfig == "" {
		s.Kubeconfig = filepath.Join(dir, "kubeconfig")
	}
	if err := opts.pods.check(cfg.Node, otherUsers(opts, cfg)); err != nil {
		return err
	}
	if node, ok := cfg.Node.(controlplane.Processes); ok {
		node.Dir, node.Server = nodeDir, strings.TrimPrefix(s.URL(), "https://")
		if err := opts.pods.apply(&node, dir, s.Kubeconfig); err != nil {
			return err
		}
		cfg.Node = node
	}
	if err := addFrontProxy(dir, cfg); err != nil {
		return err
	}
	if cfg.Authentication.AcceptBootstrapTokens {
		admitNodes(cfg, authority)
	}
	if cfg.Kubelets.Certificate == nil {
		cfg.Kubelets.Certificate = authority.ClientCertificate(kubeletClientName, user.SystemPrivilegedGroup)
	}
	if opts.state.past.readOnly() {
		cfg.Controllers, cfg.RootCA, cfg.Endpoints = controlplane.NoControllers{}, nil, controlplane.Endpoints{}
	}
	return nil
}

func (s *start) startControlPlane(ctx context.Context) (err error) {
	s.cfg.Paths = s.managePlanes()
	s.ControlPlane, err = controlplane.Start(ctx, s.cfg)
	if node, ok := s.cfg.Node.(controlplane.Processes); ok && errors.Is(err, process.ErrNotConfined) &&
		s.opts.pods.mayFallBack {
		node.Unconfined = true
		s.cfg.Node = node
		s.ControlPlane, err = controlplane.Start(ctx, s.cfg)
	}
	if err != nil {
		return s.opts.pods.explain(err)
	}
	if warning := podWarning(s.PodConfinement()); warning != "" {
		fmt.Fprintln(s.errOut, warning)
	}
	s.onClose(s.ControlPlane.Stop)
	return nil
}

// managePlanes returns the paths of the requests that manage throwaway control planes. They pass
// the pipeline of the control plane, which exists before the others.
func (s *start) managePlanes() map[string]http.Handler {
	if s.opts.planes.max == 0 {
		return nil
	}
	serve := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { s.throwaway.ServeHTTP(w, req) })
	return map[string]http.Handler{"/planes": serve, "/planes/": serve}
}

// addHandlers sets the server's handler: the control plane's, what a state from a history refuses,
// and throwaway control planes.
func (s *start) addHandlers() {
	var stopManaging func()
	s.handler.Handler, stopManaging = memory.Manage(s.ControlPlane.Handler(), s.Store().Pack)
	s.onClose(stopManaging)
	switch {
	case s.opts.state.past.readOnly():
		s.from = "read-only: " + s.state.from
		s.handler.Handler = s.keepPast(s.state, s.handler.Handler, s.errOut)
	case s.state.from != "":
		s.from = "continues from " + s.state.from
	}
	if s.opts.planes.max == 0 {
		return
	}
	s.throwaway = newPlanes(s.opts.planes, s.cfg, s.state.dir, s.state.authority, s.log)
	s.onClose(s.throwaway.Close)
	s.handler.Handler = s.throwaway.Front(s.handler.Handler)
}
