package apiserver

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	restclient "k8s.io/client-go/rest"

	"kelson.dev/apiserver/discovery"
	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/inprocess"
	"kelson.dev/apiserver/metrics"
	"kelson.dev/apiserver/openapi"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

// Server serves kinds of Go types. All methods are safe for concurrent use.
type Server struct {
	store    *store.Store
	registry *resource.Registry
	scheme   *runtime.Scheme
	media    func() map[string]runtime.Serializer
	verbs    *rest.Handler
	chain    *filters.Chain
	clients  func() *x509.CertPool
	byType   map[reflect.Type]servedType
	mirrors  map[schema.GroupResource]*mirror

	noFastPaths bool

	ctx        context.Context // ends with the server; for work that belongs to no request
	cancel     context.CancelFunc
	goroutines sync.WaitGroup
	stop       sync.Once
	onStop     []func() // called at the end of Stop
}

// servedType is the kind and version of a Go type.
type servedType struct {
	kind *kind
	res  *resource.Resource
	name string // version
}

// groupVersions returns the served versions of the server's groups.
func (s *Server) groupVersions() (all []schema.GroupVersion) {
	for _, res := range s.registry.Current().All() {
		for _, v := range res.Versions {
			if gv := (schema.GroupVersion{Group: res.Group, Version: v.Name}); !slices.Contains(all, gv) {
				all = append(all, gv)
			}
		}
	}
	return all
}

// AuthOption returns how requests over the network are authenticated and authorized.
type AuthOption func(ctx context.Context) (Auth, error)

// NoFastPaths turns all fast paths off, so that Kubernetes' libraries do all work; see package
// fastpath. [Main] sets it from the environment.
func NoFastPaths() Part { return partFunc(func(p *plan) { p.noFast = true }) }

// Auth authenticates clients and authorizes their requests.
type Auth struct {
	// Authenticator identifies the users of requests. nil makes them anonymous.
	Authenticator authenticator.Request
	// Authorizer decides what users may do. nil allows everything.
	Authorizer authorizer.UnconditionalAuthorizer
	// ClientCAs returns the authorities that TLS handshakes announce to clients; nil announces
	// none.
	ClientCAs func() *x509.CertPool
	// Namespace returns an error unless objects may be created in a namespace; nil accepts every
	// namespace.
	Namespace func(ctx context.Context, name string) error
	// Cluster has objects of a cluster that apply to the kinds of this server: FlowSchemas,
	// PriorityLevelConfigurations, admission webhooks and policies with their bindings, and the
	// namespaces and Services that these name; see package delegated. nil means Kubernetes' default
	// flow control, no webhooks and no policies.
	Cluster *store.Store
	// Client is the configuration of a client of that cluster, for parameters of policies; nil
	// means that only the kinds of this server can be parameters.
	Client *restclient.Config
	// AuditPolicy and AuditSink record requests, if both are set; see package audit.
	AuditPolicy audit.PolicyRuleEvaluator
	AuditSink   audit.Sink
}

// Authorization selects how requests over the network are authenticated and authorized. Without it
// all requests are anonymous and allowed. [Main] sets it from its flags.
func Authorization(option AuthOption) Part { return partFunc(func(p *plan) { p.authentic = option }) }

// Title sets the title and the version of the server in OpenAPI documents and at /version.
func Title(title, version string) Part {
	return partFunc(func(p *plan) { p.title, p.version = title, version })
}

// Fork makes the server begin with the state of a snapshot, in memory, at no cost. It replaces
// Storage.
func Fork(sn *store.Snapshot) Part { return partFunc(func(p *plan) { p.fork = sn }) }

type namedCheck struct {
	name  string
	check func(context.Context) error
}

// Check adds a health check to /livez, /readyz and /healthz.
func Check(name string, check func(context.Context) error) Part {
	return partFunc(func(p *plan) { p.checks = append(p.checks, namedCheck{name, check}) })
}

type component func(ctx context.Context, s *Server) error

// Run runs a component, such as a controller, for as long as the server runs. It starts after the
// server serves requests in process. An error ends the component; run must log it.
func Run(run func(ctx context.Context, s *Server) error) Part {
	return partFunc(func(p *plan) { p.components = append(p.components, run) })
}

// New returns a running server, which serves requests in process and through Handler. It opens no
// port. The end of ctx ends the server's components. The caller must call Stop even then.
func New(ctx context.Context, parts ...Part) (_ *Server, err error) {
	p := &plan{open: Memory(), title: "kelson.dev/apiserver", version: "v0.0.0"}
	for _, part := range parts {
		part.addTo(p)
	}
	for _, k := range p.kinds {
		p.errs = append(p.errs, k.complete())
		for _, v := range k.versions {
			if v.deprecated == "" && v.proto != nil {
				v.deprecated = deprecation(k.gvk(v.name), v.proto, p.version)
			}
		}
	}
	if err := errors.Join(p.errs...); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Server{
		scheme: runtime.NewScheme(), registry: resource.NewRegistry(), ctx: ctx, cancel: cancel,
		byType: map[reflect.Type]servedType{}, mirrors: map[schema.GroupResource]*mirror{}, noFastPaths: p.noFast,
	}
	s.media = sync.OnceValue(func() map[string]runtime.Serializer { return newSerializers(s.scheme) })
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	if s.store, err = p.openStore(ctx); err != nil {
		return nil, fmt.Errorf("open storage: %w", err)
	}
	if err := s.addKinds(p); err != nil {
		return nil, err
	}
	auth := Auth{}
	if p.authentic != nil {
		if auth, err = p.authentic(ctx); err != nil {
			return nil, err
		}
	}
	s.clients = auth.ClientCAs
	if err := s.build(p, auth); err != nil {
		return nil, err
	}
	for _, m := range s.mirrors {
		s.goRun(func() { m.run(ctx) })
	}
	for _, run := range p.components {
		s.goRun(func() { _ = run(ctx, s) })
	}
	return s, nil
}

func (p *plan) openStore(ctx context.Context) (*store.Store, error) {
	if p.fork != nil {
		return p.fork.Fork(), nil
	}
	cfg, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	return store.Open(cfg)
}

// addKinds registers the types of all kinds and their Resources.
func (s *Server) addKinds(p *plan) error {
	named := map[schema.GroupResource]bool{}
	for _, k := range p.kinds {
		if err := k.register(s.scheme); err != nil {
			return err
		}
		if _, err := k.definition(); err != nil {
			return err
		}
	}
	for _, k := range p.kinds {
		res := k.resource(s)
		if k.errs != nil {
			return errors.Join(k.errs...)
		}
		if named[res.GroupResource()] {
			return fmt.Errorf("two kinds are served as %s", res.GroupResource())
		}
		named[res.GroupResource()] = true
		for _, v := range k.versions {
			s.byType[reflect.TypeOf(v.proto)] = servedType{k, res, v.name}
		}
		if k.source != nil {
			m, err := k.source(s, k, res)
			if err != nil {
				return err
			}
			s.mirrors[res.GroupResource()] = m
		}
		s.registry.Put(res)
	}
	return nil
}

// since returns a revision: this server has stored all objects of the kind with later revisions.
func (s *Server) since(k *kind) uint64 {
	switch {
	case k.source != nil:
		return 0
	case s.store.Follows(): // other servers write to it too
		return math.MaxUint64
	}
	return s.store.Snapshot().Revision()
}

// build composes verbs, documents and the request pipeline.
func (s *Server) build(p *plan, auth Auth) error {
	registry := metrics.New(s.store)
	counts := metrics.NewVerbs(registry)
	chain, err := s.admission(p, auth, registry)
	if err != nil {
		return err
	}
	s.verbs = rest.New(rest.Config{
		Store: s.store, Registry: s.registry, Admission: counts.Admission(chain), Authorizer: auth.Authorizer,
		Metrics: counts, NoFastPaths: s.noFastPaths,
	})
	for _, m := range s.mirrors {
		m.verbs = rest.New(rest.Config{Store: m.store, Registry: s.registry, Admission: chain,
			Authorizer: auth.Authorizer, Metrics: counts, NoFastPaths: s.noFastPaths})
	}
	flows, err := newFlowControl(auth.Cluster)
	if err != nil {
		return err
	}
	groups := discovery.New(discovery.Config{Registry: s.registry})
	docs := openapi.New(openapi.Config{Registry: s.registry, Custom: documents{p.kinds}, Title: p.title,
		Version: p.version})
	checks := []filters.Check{{Name: "store", Func: func(context.Context) error { return s.store.Failed() }}}
	for _, c := range p.checks {
		checks = append(checks, filters.Check{Name: c.name, Func: c.check})
	}
	s.chain = filters.New(filters.Config{
		Resources: http.HandlerFunc(s.serve),
		Paths: map[string]http.Handler{"/api": groups, "/api/": groups, "/apis": groups, "/apis/": groups,
			"/openapi/": docs},
		Below:         func() []string { return append(groups.Paths(), "/openapi/v2", "/openapi/v3") },
		Authenticator: auth.Authenticator, Authorizer: auth.Authorizer, AuditPolicy: auth.AuditPolicy,
		AuditSink: auth.AuditSink,
		Version:   version.Info{GitVersion: p.version}, Metrics: registry, FlowControl: flows,
		Checks: filters.Checks{Health: checks, Live: checks, Ready: checks},
		Serves: func(info *request.RequestInfo) bool {
			gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
			return s.registry.Current().Serves(gvr, info.Subresource)
		},
		LongRunning: s.connects,
	})
	return nil
}

// serve serves requests on resources, from the store or from the source of the kind.
func (s *Server) serve(w http.ResponseWriter, req *http.Request) {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok {
		wire.Error(w, req, errors.New("no RequestInfo found in the context"))
		return
	}
	if m := s.mirrors[schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}]; m != nil {
		m.serve(w, req, info)
		return
	}
	s.verbs.ServeHTTP(w, req)
}

// connects reports whether a request is for a subresource that streams.
func (s *Server) connects(info *request.RequestInfo) bool {
	if info.Subresource == "" {
		return false
	}
	res, ok := s.registry.Current().ByName(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource})
	if !ok {
		return false
	}
	sub, ok := res.Subresource(info.Subresource)
	return ok && sub.Connect != nil
}

func (s *Server) serializers() map[string]runtime.Serializer { return s.media() }

func (s *Server) goRun(run func()) { s.goroutines.Go(run) }

// Handler serves the API through the whole request pipeline, for a listener.
func (s *Server) Handler() http.Handler { return s.chain }

// ClientCAs returns the authorities that a TLS handshake announces to clients; nil announces none.
func (s *Server) ClientCAs() *x509.CertPool {
	if s.clients == nil {
		return nil
	}
	return s.clients()
}

// Store returns the store that holds the objects.
func (s *Server) Store() *store.Store { return s.store }

// Registry returns the registry of served kinds.
func (s *Server) Registry() *resource.Registry { return s.registry }

// Scheme returns a scheme with all types of the server, for clients. It must not be changed.
func (s *Server) Scheme() *runtime.Scheme { return s.scheme }

// admin is the default user of in-process requests.
var admin = &user.DefaultInfo{Name: "system:apiserver",
	Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}

// RESTConfig returns the configuration of an in-process client with all rights.
func (s *Server) RESTConfig() *restclient.Config { return s.RESTConfigAs(admin) }

// RESTConfigAs returns the configuration of an in-process client that acts as a user.
func (s *Server) RESTConfigAs(u user.Info) *restclient.Config {
	return &restclient.Config{
		Host: "http://apiserver.in-process",
		Transport: &inprocess.Transport{
			Handler: s.chain,
			Context: func(ctx context.Context) context.Context { return filters.WithUser(ctx, u) },
		},
		QPS: -1, // the server limits requests, not the client
	}
}

// Stopping makes /readyz fail. Requests are still served until Drain.
func (s *Server) Stopping() { s.chain.Stopping() }

// Drain refuses new requests, ends watches, and returns when the short requests in flight are
// answered or ctx ends.
func (s *Server) Drain(ctx context.Context) error { return s.chain.Shutdown(ctx) }

// Stop ends the server and returns when its goroutines have ended. It aborts requests in flight;
// see Drain.
func (s *Server) Stop() {
	s.stop.Do(func() {
		s.cancel()
		s.goroutines.Wait()
		for _, m := range s.mirrors {
			_ = m.store.Close()
		}
		if s.store != nil {
			_ = s.store.Close() // acknowledged writes are durable
		}
		for _, end := range s.onStop {
			end()
		}
	})
}
