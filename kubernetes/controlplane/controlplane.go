// Package controlplane composes a control plane: store, kinds, verbs, pipeline, controllers and
// nodes.
//
//	plane, err := controlplane.Start(ctx, controlplane.Config{})
//	defer plane.Stop()
//	config := plane.RESTConfig() // for client-go, controller-runtime, or kelson.dev/operator
//
// Start opens no port and no file. It can be called any number of times in one process, and inside
// a testing/synctest bubble. Everything that it started has ended when Stop returns. Package
// kelson.dev/apiserver/serving serves [ControlPlane.Handler] on a port.
package controlplane

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/admission"
	"kelson.dev/apiserver/authn"
	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/authz/rbac"
	"kelson.dev/apiserver/crd"
	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/inprocess"
	"kelson.dev/apiserver/metrics"
	"kelson.dev/apiserver/resource"
	verbs "kelson.dev/apiserver/rest"
	"kelson.dev/apiserver/services"
	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/bootstrappolicy"
	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/controllers/cachesync"
	"kelson.dev/kubernetes/controllers/sharing"
	"kelson.dev/kubernetes/redact"
	"kelson.dev/kubernetes/tokens"
	"kelson.dev/kubernetes/usage"
)

// ControlPlane is a running control plane. All methods are safe for concurrent use.
type ControlPlane struct {
	store     *store.Store
	ownsStore bool
	registry  *resource.Registry
	verbs     *verbs.Handler
	chain     *filters.Chain
	identify  *authn.Authenticator
	nodes     *ownNodes
	requests  func(http.RoundTripper) http.RoundTripper // nil, or Config.Requests
	plugins   *admission.Chain                          // nil until newAdmission

	log *slog.Logger

	cancel context.CancelFunc
	parts  parts
	stop   sync.Once

	shared *sharing.Caches
	waits  *cachesync.Waits // the controllers and the scheduler that wait for their caches

	releaseVersion func() // nil until the version is claimed

	leaveEndpoints func() // nil if the server's address is not published
	resign         func() // nil if the control plane needs no Lease for its controllers
}

// Start starts a control plane and returns when it serves requests. It runs until ctx ends or Stop
// is called.
func Start(ctx context.Context, cfg Config) (_ *ControlPlane, err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	} else {
		cfg.Log = redact.Logger(cfg.Log)
	}
	if cfg.EventLifetime == 0 {
		cfg.EventLifetime = time.Hour
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &ControlPlane{store: cfg.Store, log: cfg.Log, cancel: cancel, registry: resource.NewRegistry(),
		parts: parts{log: cfg.Log}, requests: cfg.Requests, waits: cachesync.New(cfg.Log)}
	defer func() {
		if err != nil {
			p.Stop()
		}
	}()
	if p.releaseVersion, err = cfg.Version.Claim(); err != nil {
		return nil, err
	}
	if err := p.openStore(ctx, cfg); err != nil {
		return nil, err
	}
	p.shared = sharing.New(p.store)
	if p.nodes, err = newNodes(cfg, p); err != nil {
		return nil, fmt.Errorf("create nodes: %w", err)
	}

	issuer, err := p.newAuthenticator(ctx, cfg)
	if err != nil {
		return nil, err
	}
	authorizer, rules, err := p.newAuthorizer(cfg)
	if err != nil {
		return nil, err
	}
	registry := metrics.New(p.store)
	counts := metrics.NewVerbs(registry)
	resolver := services.New(services.Config{Store: p.store, ClusterIP: cfg.Aggregation.ClusterIP})
	plugins, err := p.newAdmission(cfg, authorizer, registry, resolver)
	if err != nil {
		return nil, err
	}
	definitions, err := p.registerKinds(cfg, issuer, authorizer, rules, resolver)
	if err != nil {
		return nil, err
	}
	p.verbs = verbs.New(verbs.Config{
		Store:     p.store,
		Registry:  p.registry,
		Admission: counts.Admission(cfg.Audit.annotated(plugins)),
		Metrics:   counts,
		// A PUT or an apply that creates an object needs permission to create.
		Authorizer:   authorizer,
		Loopback:     p.serverTransport(),
		CatchUp:      catchUp(p.store, definitions),
		WatchTimeout: cfg.WatchTimeout,
		NoFastPaths:  cfg.NoFastPaths,
	})
	flows, err := p.newFlowControl(cfg, registry)
	if err != nil {
		return nil, err
	}
	others := p.newAggregator(cfg, resolver, registry)
	if p.chain, err = newChain(cfg, registry, flows, p.store, issuer, p.identify, authorizer, p.registry, p.verbs,
		definitions, others, p.waits); err != nil {
		return nil, err
	}
	policy := bootstrappolicy.Config{Store: p.store, REST: p.serverConfig, Visible: p.observed(cfg),
		Aggregated: cfg.controls(), Log: cfg.Log}
	if err := p.createInitialObjects(ctx, cfg, policy); err != nil {
		return nil, err
	}
	register := others.Register
	if policy.Visible {
		register = others.RegisterVisibly
	}
	if err := register(ctx, localVersions(p.registry.Current())); err != nil {
		return nil, err
	}
	if files := cfg.Authentication; files.ClientCAFile != "" || files.RequestHeader != nil {
		p.goRun(ctx, "trusted authorities", func(ctx context.Context) error { return p.keepTrust(ctx, cfg.RootCA) })
	}
	p.goRun(ctx, "definitions", definitions.Run)
	p.goRun(ctx, "aggregator", others.Run)
	if flows != nil {
		p.goRun(ctx, "flow control", flows.Run)
		p.goRun(ctx, "flow control objects", func(ctx context.Context) error {
			return bootstrappolicy.MaintainFlows(ctx, policy)
		})
	}
	if cfg.Endpoints.Address.IsValid() {
		// leaveEndpoints returns when the server's address is removed, so that clients are not sent
		// to a server that refuses them.
		p.leaveEndpoints = p.goUntil(ctx, "endpoints", func(ctx context.Context) error {
			return p.maintainEndpoints(ctx, cfg.Endpoints)
		})
	}
	err = p.whileLeading(ctx, func(ctx context.Context, parts *parts) error {
		if err := p.startControllers(ctx, parts, cfg, issuer, authorizer, others); err != nil {
			return err
		}
		p.nodes.start(ctx, parts)
		return p.startScheduler(ctx, parts, cfg)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// ErrTwoStates means that Config has both a Store and a state to start from.
var ErrTwoStates = errors.New("a control plane has either a store or a state to start from")

// openStore uses the given store, a fork of another control plane's state, or a new state in
// memory.
func (p *ControlPlane) openStore(ctx context.Context, cfg Config) (err error) {
	switch {
	case p.store != nil && cfg.From != nil:
		return ErrTwoStates
	case p.store != nil:
	case cfg.From != nil:
		p.store, p.ownsStore = cfg.From.Fork(), true
	case cfg.Audit.records():
		// The creation of the bootstrap policy is recorded.
		if p.store, err = store.Open(store.Config{}); err != nil {
			return fmt.Errorf("create store: %w", err)
		}
		p.ownsStore = true
	default:
		if p.store, err = bootstrappolicy.Fresh(ctx, cfg.controls()); err != nil {
			return fmt.Errorf("create store: %w", err)
		}
		p.ownsStore = true
	}
	return nil
}

// registerKinds adds the built-in kinds and the stored custom kinds to the registry.
func (p *ControlPlane) registerKinds(cfg Config, issuer *tokens.Issuer, authorizer authz.Authorizer, rules rbac.Rules,
	resolver *services.Resolver) (*crd.Definitions, error) {
	objects := func() resource.Objects { return p.verbs }
	kinds, err := builtin.Resources(builtin.Config{
		Objects: objects, Store: p.store, Logs: p.nodes.logs, Node: p.nodes.named, Kubelets: cfg.Kubelets,
		ServiceRange: cfg.ServiceRange, NodePorts: cfg.NodePorts, APIs: cfg.APIs, Version: cfg.Version,
		Tokens: issuer, Authenticator: p.identify, Audiences: issuer.Audiences(),
		Authorizer: authorizer, Rules: rules, Registry: p.registry, Components: p.components(cfg),
		NoFastPaths: cfg.NoFastPaths,
	})
	if err != nil {
		return nil, fmt.Errorf("create built-in kinds: %w", err)
	}
	definitions, err := crd.New(crd.Config{Store: p.store, Registry: p.registry, Objects: objects, Services: resolver,
		Dial: cfg.DialWebhooks, NoFastPaths: cfg.NoFastPaths})
	if err != nil {
		return nil, fmt.Errorf("create custom kinds: %w", err)
	}
	if builtin.ServesDefinitions(cfg.APIs) {
		kinds = append(kinds, definitions.Resource())
	}
	if p.nodes.exist() { // without a node of its own, another server provides metrics of pods
		kinds = append(kinds, usage.Resources(usage.Config{Store: p.store, Node: p.runsPodsOf, Log: cfg.Log})...)
	}
	p.registry.Put(kinds...)
	if err := definitions.Load(); err != nil {
		return nil, fmt.Errorf("load custom kinds: %w", err)
	}
	return definitions, nil
}

// createInitialObjects creates the objects that every cluster has.
func (p *ControlPlane) createInitialObjects(ctx context.Context, cfg Config, policy bootstrappolicy.Config) error {
	if err := bootstrap(ctx, p.store.Snapshot(), p.registry.Current(), p.serverTransport(), cfg.ServiceRange,
		cfg.Log); err != nil {
		return fmt.Errorf("create initial objects: %w", err)
	}
	if err := createPriorityClasses(ctx, p.store.Snapshot(), p.registry.Current(), p.serverTransport()); err != nil {
		return fmt.Errorf("create initial objects: %w", err)
	}
	// the control plane serves clients without it
	if err := p.publishTrust(ctx, cfg.RootCA); err != nil {
		cfg.Log.Error("publish the trusted authorities", "configmap", trustName, "err", err)
	}
	if err := bootstrappolicy.Ensure(ctx, policy); err != nil {
		return err
	}
	if err := p.createOwnRoles(ctx, cfg, p.store.Snapshot(), p.registry.Current()); err != nil {
		return fmt.Errorf("create initial objects: %w", err)
	}
	if p.nodes.exist() {
		if err := metricsReader(ctx, p.store.Snapshot(), p.registry.Current(), p.serverTransport()); err != nil {
			return fmt.Errorf("create initial objects: %w", err)
		}
	}
	return nil
}

// goRun runs a component until the control plane ends.
func (p *ControlPlane) goRun(ctx context.Context, name string, run func(context.Context) error) {
	p.parts.run(ctx, name, run)
}

// goUntil runs a component until the control plane ends or stop is called. stop returns when the
// component has ended.
func (p *ControlPlane) goUntil(ctx context.Context, name string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	p.goRun(ctx, name, func(ctx context.Context) error {
		defer close(ended)
		return run(ctx)
	})
	return func() {
		cancel()
		<-ended
	}
}

// parts is a group of components that run concurrently.
type parts struct {
	sync.WaitGroup
	log *slog.Logger
}

// run runs a component until ctx ends. If the component fails, run logs the error and the other
// components continue.
func (p *parts) run(ctx context.Context, name string, run func(context.Context) error) {
	p.Go(func() {
		if err := run(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
			p.log.Error("component ended", "component", name, "err", err)
		}
	})
}

// Stop ends the control plane and returns when all of its goroutines have ended. It aborts requests
// in flight; see Drain.
func (p *ControlPlane) Stop() {
	p.stop.Do(func() {
		p.cancel()
		p.parts.Wait()
		if p.plugins != nil {
			p.plugins.Stop()
		}
		if p.ownsStore {
			_ = p.store.Close() // a store that the control plane owns is in memory
		}
		if p.releaseVersion != nil {
			p.releaseVersion()
		}
	})
}

// Stopping makes /readyz fail. Requests are still served until Drain.
func (p *ControlPlane) Stopping() { p.chain.Stopping() }

// Drain first ends what makes other servers and clients depend on this one: its address in the
// endpoints, and its controllers, so that another server runs them at once. Then it refuses new
// requests, ends watches, and returns when the short requests in flight are answered or ctx ends.
func (p *ControlPlane) Drain(ctx context.Context) error {
	if p.leaveEndpoints != nil {
		p.leaveEndpoints()
	}
	if p.resign != nil {
		p.resign()
	}
	return p.chain.Shutdown(ctx)
}

// Handler serves the API through the whole request pipeline, for a listener.
func (p *ControlPlane) Handler() http.Handler { return p.chain }

// ClientCAs returns the authorities whose client certificates are accepted now, or nil if there are
// none. A TLS server sends their names to clients.
func (p *ControlPlane) ClientCAs() *x509.CertPool { return p.identify.ClientCAs() }

// Store returns the store that holds the state.
func (p *ControlPlane) Store() *store.Store { return p.store }

// Registry returns the registry of served kinds.
func (p *ControlPlane) Registry() *resource.Registry { return p.registry }

// admin is the user of in-process requests of programs that embed the control plane. The control
// plane's own components have other users; see package identity.
var admin = &user.DefaultInfo{Name: "kelson-admin", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}

// Transport returns a transport that passes requests to the control plane in process, as an
// administrator.
func (p *ControlPlane) Transport() http.RoundTripper { return p.TransportAs(admin) }

// TransportAs returns a transport that passes requests to the control plane in process, as the
// given user.
func (p *ControlPlane) TransportAs(u user.Info) http.RoundTripper {
	var t http.RoundTripper = &inprocess.Transport{
		// newAdmission and other constructors take a transport before p.chain is set, so the
		// handler reads p.chain per request.
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.chain.ServeHTTP(w, r) }),
		Context: func(ctx context.Context) context.Context { return filters.WithUser(ctx, u) },
	}
	if p.requests != nil {
		t = p.requests(t)
	}
	return t
}

// RESTConfig returns the configuration of an in-process client with an administrator's rights.
func (p *ControlPlane) RESTConfig() *rest.Config { return p.RESTConfigAs(admin) }

// RESTConfigAs returns the configuration of an in-process client that acts as the given user.
func (p *ControlPlane) RESTConfigAs(u user.Info) *rest.Config {
	return &rest.Config{
		Host:      inprocess.URL,
		Transport: p.TransportAs(u),
		QPS:       -1, // the server limits requests, not the client
	}
}
