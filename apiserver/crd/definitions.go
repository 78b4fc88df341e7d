package crd

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/webhook"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// Owner is the [resource.Resource.Owner] of every custom kind.
const Owner = "crd"

// Config says what a Definitions works with. All fields without a word on nil are needed.
type Config struct {
	Store    *store.Store
	Registry *resource.Registry
	// Objects gives the verbs by which instances and definitions are changed outside of a request. It is a function
	// because the verbs are made after the kinds; it is called no earlier than in Run.
	Objects func() resource.Objects
	// Services finds the address of a conversion webhook that is named by service; nil means <service>.<namespace>.svc.
	Services webhook.ServiceResolver
	// Authentication gives the client configuration for conversion webhooks; nil means none.
	Authentication webhook.AuthenticationInfoResolverWrapper
	// NoFastPaths leaves all work to the libraries of Kubernetes; see package fastpath.
	NoFastPaths bool
}

// Definitions keeps the custom kinds of one control plane. All methods are safe for concurrent use.
type Definitions struct {
	store      *store.Store
	registry   *resource.Registry
	objects    func() resource.Objects
	scheme     *runtime.Scheme
	resource   *resource.Resource
	converters func() (*conversion.CRConverterFactory, error) // made when a webhook converts for the first time
	names      nameTable
	// noFastPaths is Config.NoFastPaths.
	noFastPaths bool

	mu    sync.Mutex
	kinds map[string]*kind  // served definitions, by name
	seen  map[string]uint64 // newest revision applied, by name
	// refused are the definitions that wait for names others hold.
	refused map[string]bool
}

// New returns the definitions of a control plane, with none registered. Put Resource in the registry, then call Load.
func New(cfg Config) (*Definitions, error) {
	services := cfg.Services
	if services == nil {
		services = webhook.NewDefaultServiceResolver()
	}
	authentication := cfg.Authentication
	if authentication == nil {
		authentication = func(delegate webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver { return delegate }
	}
	d := &Definitions{
		store:    cfg.Store,
		registry: cfg.Registry,
		objects:  cfg.Objects,
		scheme:   sharedScheme(),
		converters: sync.OnceValues(func() (*conversion.CRConverterFactory, error) {
			return conversion.NewCRConverterFactory(services, authentication)
		}),
		noFastPaths: cfg.NoFastPaths,
		names:       nameTable{groups: map[string]map[string]claim{}},
		kinds:       map[string]*kind{},
		seen:        map[string]uint64{},
		refused:     map[string]bool{},
	}
	d.resource = d.newResource()
	return d, nil
}

// Resource is the kind CustomResourceDefinition itself.
func (d *Definitions) Resource() *resource.Resource { return d.resource }

// Load registers every definition that the store holds. Call it once, before requests are served.
func (d *Definitions) Load() error { return d.load(d.store.Snapshot()) }

// CatchUp registers what others wrote to the store before the call.
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

// observe applies a stored definition, whoever wrote it.
func (d *Definitions) observe(obj *store.Object) error {
	d.mu.Lock()
	known := d.seen[obj.Key.Name] >= obj.Revision
	d.mu.Unlock()
	if known {
		return nil
	}
	r, err := read(obj)
	if err != nil {
		return fmt.Errorf("load definition %s: %w", obj.Key.Name, err)
	}
	d.apply(r)
	return nil
}

// apply makes the registry agree with one revision of a definition; older revisions than already applied are ignored.
func (d *Definitions) apply(r *revised) {
	hub, definition, revision := r.hub, r.definition, r.revision
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen[definition.Name] >= revision {
		return
	}
	d.seen[definition.Name] = revision
	d.names.settle(definition.Spec.Group, definition.Name, claimed(&hub.Status.AcceptedNames))
	if apiextensions.IsCRDConditionFalse(hub, apiextensions.NamesAccepted) {
		d.refused[definition.Name] = true
	} else {
		delete(d.refused, definition.Name)
	}
	old := d.kinds[definition.Name]
	if !served(definition) || d.takenByOthers(definition) {
		if old != nil {
			delete(d.kinds, definition.Name)
			d.registry.Remove(old.resource.GroupResource())
		}
		return
	}
	k := newKind(d, r, old)
	d.kinds[definition.Name] = k
	d.registry.Put(k.resource)
}

// takenByOthers says whether the paths of a definition belong to a kind that is not custom: that kind goes before.
func (d *Definitions) takenByOthers(definition *apiextensionsv1.CustomResourceDefinition) bool {
	res, ok := d.registry.Current().ByName(groupResource(definition))
	return ok && res.Owner != Owner
}

// forget takes a deleted definition out.
func (d *Definitions) forget(name string, revision uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen[name] >= revision {
		return
	}
	d.seen[name] = revision
	d.names.settle(groupOf(name), name, claim{})
	delete(d.refused, name)
	if old := d.kinds[name]; old != nil {
		delete(d.kinds, name)
		d.registry.Remove(old.resource.GroupResource())
	}
}

// hooks settle names and conditions within the write, and make paths live with its commit.
func (d *Definitions) hooks() *resource.Hooks {
	return &resource.Hooks{
		OnCreate: func(_ context.Context, hub runtime.Object, _ bool) ([]store.Op, func(), error) {
			return nil, d.settle(hub.(*apiextensions.CustomResourceDefinition)), nil
		},
		OnUpdate: func(_ context.Context, hub, _ runtime.Object, _ bool) ([]store.Op, func(), error) {
			return nil, d.settle(hub.(*apiextensions.CustomResourceDefinition)), nil
		},
		OnDelete: func(_ context.Context, hub runtime.Object, _ bool) error {
			markTerminating(hub.(*apiextensions.CustomResourceDefinition))
			return nil
		},
		AfterCommit: func(_ context.Context, hub, old runtime.Object, revision uint64) {
			if hub == nil {
				d.forget(old.(*apiextensions.CustomResourceDefinition).Name, revision)
				return
			}
			// The only error is that of a conversion that validation has done before.
			if r, err := revise(hub.(*apiextensions.CustomResourceDefinition).DeepCopy(), revision); err == nil {
				d.apply(r)
			}
		},
	}
}

// kindFor returns the served kind of a definition, or nil.
func (d *Definitions) kindFor(name string) *kind {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kinds[name]
}
