// Package controlplane composes a control plane: store, kinds, verbs, pipeline, controllers and nodes.
//
//	plane, err := controlplane.Start(ctx, controlplane.Config{})
//	defer plane.Stop()
//	config := plane.RESTConfig() // for client-go, controller-runtime, or kelson.dev/operator
//
// It opens no port, no file and no global state; it can be started any number of times in one process, and inside a testing/synctest
// bubble. Everything it started has ended when Stop returns. Package https puts it on a port.
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
	"kelson.dev/apiserver/crd"
	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/inprocess"
	"kelson.dev/apiserver/metrics"
	"kelson.dev/apiserver/resource"
	verbs "kelson.dev/apiserver/rest"
	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/bootstrappolicy"
	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/redact"
)

// ControlPlane is a running control plane. All methods are safe for concurrent use.
type ControlPlane struct {
	store     *store.Store
	ownsStore bool
	registry  *resource.Registry
	verbs     *verbs.Handler
	chain     *filters.Chain
	identify  *authn.Authenticator
	node      *ownNode
	plugins   *admission.Chain // nil before it is made

	log *slog.Logger

	cancel context.CancelFunc
	parts  parts
	stop   sync.Once
}

// Start returns a control plane that answers requests. It runs until ctx ends or Stop is called.
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
	p := &ControlPlane{store: cfg.Store, log: cfg.Log, cancel: cancel, registry: resource.NewRegistry(), parts: parts{log: cfg.Log}}
	defer func() {
		if err != nil {
			p.Stop()
		}
	}()
	switch {
	case p.store != nil:
	case cfg.From != nil:
		p.store, p.ownsStore = cfg.From.Fork(), true
	default:
		if p.store, err = store.Open(store.Config{}); err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
		p.ownsStore = true
	}
	if p.node, err = newNode(cfg, p); err != nil {
		return nil, fmt.Errorf("make node: %w", err)
	}

	objects := func() resource.Objects { return p.verbs }
	issuer, err := p.newAuthenticator(ctx, cfg)
	if err != nil {
		return nil, err
	}
	may, rules, err := p.newAuthorizer(cfg)
	if err != nil {
		return nil, err
	}
	registry := metrics.New(p.store)
	counts := metrics.NewVerbs(registry)
	plugins, err := p.newAdmission(cfg, may, registry)
	if err != nil {
		return nil, err
	}
	kinds, err := builtin.Resources(builtin.Config{
		Objects: objects, Store: p.store, Logs: p.node.logs, Node: p.node.named, ServiceRange: cfg.ServiceRange,
		Tokens: issuer, Authenticator: p.identify, Audiences: issuer.Audiences(),
		Authorizer: may, Rules: rules, Registry: p.registry, NoFastPaths: cfg.NoFastPaths,
	})
	if err != nil {
		return nil, fmt.Errorf("make built-in kinds: %w", err)
	}
	definitions, err := crd.New(crd.Config{Store: p.store, Registry: p.registry, Objects: objects, NoFastPaths: cfg.NoFastPaths})
	if err != nil {
		return nil, fmt.Errorf("make custom kinds: %w", err)
	}
	p.registry.Put(append(kinds, definitions.Resource())...)
	if err := definitions.Load(); err != nil {
		return nil, fmt.Errorf("load custom kinds: %w", err)
	}
	p.verbs = verbs.New(verbs.Config{
		Store:     p.store,
		Registry:  p.registry,
		Admission: counts.Admission(cfg.Audit.annotated(plugins)),
		Metrics:   counts,
		// A PUT or an apply that creates needs the right to create.
		Authorizer:  may,
		CatchUp:     catchUp(p.store, definitions),
		NoFastPaths: cfg.NoFastPaths,
	})
	flows, err := p.newFlowControl(cfg, registry)
	if err != nil {
		return nil, err
	}
	if p.chain, err = newChain(cfg, registry, flows, p.store, issuer, p.identify, may, p.registry, p.verbs, definitions); err != nil {
		return nil, err
	}
	if err := bootstrap(ctx, p.store.Snapshot(), p.Transport(), cfg.ServiceRange); err != nil {
		return nil, fmt.Errorf("create what exists from the start: %w", err)
	}
	if err := p.publishTrust(ctx, cfg.RootCA); err != nil { // clients are served all the same
		cfg.Log.Error("publish whom this control plane trusts", "configmap", trustName, "err", err)
	}
	policy := bootstrappolicy.Config{Store: p.store, REST: p.RESTConfig, Aggregated: !cfg.NoControllers, Log: cfg.Log}
	if err := bootstrappolicy.Ensure(ctx, policy); err != nil {
		return nil, err
	}
	p.goRun(ctx, "definitions", definitions.Run)
	if flows != nil {
		p.goRun(ctx, "flow control", flows.Run)
		p.goRun(ctx, "flow control objects", func(ctx context.Context) error { return bootstrappolicy.MaintainFlows(ctx, policy) })
	}
	err = p.whileLeading(ctx, func(ctx context.Context, parts *parts) error {
		if err := p.startControllers(ctx, parts, cfg, issuer, may); err != nil {
			return err
		}
		p.node.start(ctx, parts)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// goRun runs a part until the control plane ends.
func (p *ControlPlane) goRun(ctx context.Context, name string, run func(context.Context) error) {
	p.parts.run(ctx, name, run)
}

// parts are those that run beside each other.
type parts struct {
	sync.WaitGroup
	log *slog.Logger
}

// run runs a part until ctx ends. One that fails is told of: the others go on without it.
func (p *parts) run(ctx context.Context, name string, run func(context.Context) error) {
	p.Go(func() {
		if err := run(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
			p.log.Error("a part of the control plane ended", "part", name, "err", err)
		}
	})
}

// Stop ends everything and returns when it has ended. Requests in hand are cut; see Drain.
func (p *ControlPlane) Stop() {
	p.stop.Do(func() {
		p.cancel()
		p.parts.Wait()
		if p.plugins != nil {
			p.plugins.Stop()
		}
		if p.ownsStore {
			p.store.Close()
		}
	})
}

// Drain refuses new requests, ends watches, and returns when the short requests in hand are answered or ctx ends.
func (p *ControlPlane) Drain(ctx context.Context) error { return p.chain.Shutdown(ctx) }

// Handler serves the API with its whole pipeline, for a listener.
func (p *ControlPlane) Handler() http.Handler { return p.chain }

// ClientCAs are the authorities whose client certificates count now; nil: none. A server shows them to its clients.
func (p *ControlPlane) ClientCAs() *x509.CertPool { return p.identify.ClientCAs() }

// Store is the state.
func (p *ControlPlane) Store() *store.Store { return p.store }

// Registry is the set of kinds that are served now.
func (p *ControlPlane) Registry() *resource.Registry { return p.registry }

// admin is the user of in-process callers who do not say who they are.
var admin = &user.DefaultInfo{Name: "kelson-admin", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}

// Transport hands requests to the control plane in process, as an administrator.
func (p *ControlPlane) Transport() http.RoundTripper { return p.TransportAs(admin) }

// TransportAs hands requests to the control plane in process, as a user.
func (p *ControlPlane) TransportAs(u user.Info) http.RoundTripper {
	return &inprocess.Transport{
		// The chain is made after the parts that are given a transport: it is looked up when a request comes.
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.chain.ServeHTTP(w, r) }),
		Context: func(ctx context.Context) context.Context { return filters.WithUser(ctx, u) },
	}
}

// RESTConfig is the configuration of an administrator's client in this process.
func (p *ControlPlane) RESTConfig() *rest.Config { return p.RESTConfigAs(admin) }

// RESTConfigAs is the configuration of a user's client in this process.
func (p *ControlPlane) RESTConfigAs(u user.Info) *rest.Config {
	return &rest.Config{
		Host:      "http://kelson.in-process",
		Transport: p.TransportAs(u),
		QPS:       -1, // flow control is the server's
	}
}
