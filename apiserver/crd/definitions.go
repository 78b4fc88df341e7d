package crd

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/bounded"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// Owner is the [resource.Resource.Owner] of every custom kind.
const Owner = "crd"

// Config configures a Definitions. All fields are required unless their comment mentions nil.
type Config struct {
	Store    *store.Store
	Registry *resource.Registry
	// Objects returns the verbs with which Run changes instances and definitions. It is a function
	// because the verbs are created after the kinds. Only Run calls it.
	Objects func() resource.Objects
	// Services resolves the service of a conversion webhook to an address; nil resolves to
	// <service>.<namespace>.svc.
	Services webhook.ServiceResolver
	// Authentication returns the client configuration for conversion webhooks; nil means none.
	Authentication webhook.AuthenticationInfoResolverWrapper
	// Dial, if not nil, connects to conversion webhooks. The address of a webhook in a Service is
	// NAME.NAMESPACE.svc:PORT, and Services is not used.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// NoFastPaths turns all fast paths off, so that Kubernetes' libraries do all work; see package
	// fastpath.
	NoFastPaths bool
}

// Definitions manages the custom kinds of one control plane. All methods are safe for concurrent
// use.
type Definitions struct {
	store    *store.Store
	registry *resource.Registry
	objects  func() resource.Objects
	scheme   *runtime.Scheme
	resource *resource.Resource
	// created for the first conversion by a webhook
	converters func() (*conversion.CRConverterFactory, error)
	names      nameTable
	// noFastPaths is Config.NoFastPaths.
	noFastPaths bool

	mu    sync.Mutex
	kinds map[string]*kind  // served definitions, by name
	seen  map[string]uint64 // newest revision applied, by name
	// refused are the definitions that wait for names which other definitions hold.
	refused map[string]bool
	// yielded are the kinds that definitions have replaced.
	yielded map[schema.GroupResource]*resource.Resource
}

// New returns a Definitions that has registered no kind yet. Put Resource in the registry, then
// call Load.
func New(cfg Config) (*Definitions, error) {
	services := cfg.Services
	if services == nil || cfg.Dial != nil {
		services = webhook.NewDefaultServiceResolver()
	}
	authentication := cfg.Authentication
	if authentication == nil {
		authentication = func(delegate webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
			return delegate
		}
	}
	limited := func(delegate webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		return limiting{authentication(delegate), cfg.Dial}
	}
	d := &Definitions{
		store:    cfg.Store,
		registry: cfg.Registry,
		objects:  cfg.Objects,
		scheme:   sharedScheme(),
		converters: sync.OnceValues(func() (*conversion.CRConverterFactory, error) {
			return conversion.NewCRConverterFactory(services, limited)
		}),
		noFastPaths: cfg.NoFastPaths,
		names:       nameTable{groups: map[string]map[string]claim{}},
		kinds:       map[string]*kind{},
		seen:        map[string]uint64{},
		refused:     map[string]bool{},
		yielded:     map[schema.GroupResource]*resource.Resource{},
	}
	d.resource = d.newResource()
	return d, nil
}

// limiting limits the responses of conversion webhooks and the time until they arrive. A conversion
// has no context, so a request's deadline does not end it. dial, if not nil, connects to webhooks.
type limiting struct {
	webhook.AuthenticationInfoResolver
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// ClientConfigFor implements webhook.AuthenticationInfoResolver.
func (l limiting) ClientConfigFor(hostPort string) (*rest.Config, error) {
	return l.set(l.AuthenticationInfoResolver.ClientConfigFor(hostPort))
}

// ClientConfigForService implements webhook.AuthenticationInfoResolver.
func (l limiting) ClientConfigForService(name, namespace string, port int) (*rest.Config, error) {
	return l.set(l.AuthenticationInfoResolver.ClientConfigForService(name, namespace, port))
}

func (l limiting) set(cfg *rest.Config, err error) (*rest.Config, error) {
	if err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	if l.dial != nil {
		cfg.Dial = l.dial
	}
	if cfg.Timeout == 0 || cfg.Timeout > bounded.Timeout {
		cfg.Timeout = bounded.Timeout
	}
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return bounded.Transport{RoundTripper: rt, Max: bounded.MaxObject}
	})
	return cfg, nil
}

// Resource returns the kind CustomResourceDefinition itself.
func (d *Definitions) Resource() *resource.Resource { return d.resource }

// Load registers every definition that the store holds. Call it once, before requests are served.
func (d *Definitions) Load() error { return d.load(d.store.Snapshot()) }

// CatchUp registers the definitions that other servers wrote to the store before the call.
func (d *Definitions) CatchUp(ctx context.Context) error {
	sn, err := d.store.Fresh(ctx)
	if err != nil {
		return err
	}
	return d.load(sn)
}

func (d *Definitions) load(sn *store.Snapshot) error {
	for obj := range sn.Scan(d.resource.Prefix(), "", store.Key{}) {
		if err := d.observe(obj); err != nil {
			return err
		}
	}
	return nil
}

// observe applies a stored definition unless this revision or a newer one has been applied.
func (d *Definitions) observe(obj *store.Object) error {
	d.mu.Lock()
	applied := d.seen[obj.Key.Name] >= obj.Revision
	d.mu.Unlock()
	if applied {
		return nil
	}
	r, err := read(obj)
	if err != nil {
		return fmt.Errorf("load definition %s: %w", obj.Key.Name, err)
	}
	d.apply(r)
	return nil
}

// apply updates the registry to one revision of a definition. It ignores revisions older than the
// newest applied one.
func (d *Definitions) apply(r *definitionRevision) {
	hub, definition, revision := r.hub, r.definition, r.revision
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen[definition.Name] >= revision {
		return
	}
	d.seen[definition.Name] = revision
	d.names.assign(definition.Spec.Group, definition.Name, claimed(&hub.Status.AcceptedNames))
	if apiextensions.IsCRDConditionFalse(hub, apiextensions.NamesAccepted) {
		d.refused[definition.Name] = true
	} else {
		delete(d.refused, definition.Name)
	}
	old := d.kinds[definition.Name]
	if !served(definition) || d.takenByOthers(definition) {
		if old != nil {
			delete(d.kinds, definition.Name)
			d.unregister(old)
		}
		return
	}
	k := newKind(d, r, old)
	d.kinds[definition.Name] = k
	d.register(k)
}

// takenByOthers reports whether a kind that is not custom serves the paths of a definition. Such a
// kind takes precedence.
func (d *Definitions) takenByOthers(definition *apiextensionsv1.CustomResourceDefinition) bool {
	res, ok := d.registry.Current().ByName(groupResource(definition))
	return ok && res.Owner != Owner && !res.Yields
}

// register registers a kind. It remembers the one that yields to it.
func (d *Definitions) register(k *kind) {
	name := k.resource.GroupResource()
	if res, ok := d.registry.Current().ByName(name); ok && res.Yields {
		d.yielded[name] = res
	}
	d.registry.Put(k.resource)
}

// unregister removes a kind, and registers the one that yielded to it again.
func (d *Definitions) unregister(k *kind) {
	name := k.resource.GroupResource()
	if res := d.yielded[name]; res != nil {
		delete(d.yielded, name)
		d.registry.Put(res)
		return
	}
	d.registry.Remove(name)
}

// forget removes a deleted definition.
func (d *Definitions) forget(name string, revision uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen[name] >= revision {
		return
	}
	d.seen[name] = revision
	d.names.assign(groupOf(name), name, claim{})
	delete(d.refused, name)
	if old := d.kinds[name]; old != nil {
		delete(d.kinds, name)
		d.unregister(old)
	}
}

// hooks sets names and conditions within the write of a definition, and serves its paths after the
// commit.
func (d *Definitions) hooks() *resource.Hooks {
	return &resource.Hooks{
		Permit: permitExpressions,
		OnCreate: func(_ context.Context, hub runtime.Object, _ bool) ([]store.Op, func(), error) {
			return nil, d.setStatus(hub.(*apiextensions.CustomResourceDefinition)), nil
		},
		OnUpdate: func(_ context.Context, hub, _ runtime.Object, _ bool) ([]store.Op, func(), error) {
			return nil, d.setStatus(hub.(*apiextensions.CustomResourceDefinition)), nil
		},
		OnDelete: func(_ context.Context, hub runtime.Object, _ bool) error {
			markTerminating(hub.(*apiextensions.CustomResourceDefinition))
			return nil
		},
		AfterCommit: func(_ context.Context, hub, _ runtime.Object, stored *store.Object) {
			if hub == nil {
				d.forget(stored.Key.Name, stored.Revision)
				return
			}
			// The kind is compiled from the stored bytes, as after a restart. A hub that was
			// decoded from protobuf differs from them: its additionalProperties with a schema do
			// not allow additional properties. Run reports an error.
			_ = d.observe(stored)
		},
	}
}

// guard returns the guard of the Resource of k whose hubs are in a version.
func (d *Definitions) guard(k *kind, hub string) *resource.Guard {
	name := k.definition.Name
	return &resource.Guard{
		Check: store.Op{Key: d.resource.Key("", name), Expect: k.revision, Check: true},
		Renew: func(current *store.Object) (*resource.Resource, error) {
			if current == nil {
				return nil, nil
			}
			if err := d.observe(current); err != nil {
				return nil, err
			}
			newest := d.kindFor(name)
			switch {
			case newest == nil || newest.name != k.name || newest.namespaced != k.namespaced:
				return nil, nil
			case newest.storage == hub:
				return newest.resource, nil
			}
			return newest.resource.In[hub], nil
		},
	}
}

// kindFor returns the served kind of a definition, or nil.
func (d *Definitions) kindFor(name string) *kind {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kinds[name]
}
