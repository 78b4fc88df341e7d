package adapter

import (
	"errors"
	"strings"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	crcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	crhandler "sigs.k8s.io/controller-runtime/pkg/handler"
	crpredicate "sigs.k8s.io/controller-runtime/pkg/predicate"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	crsource "sigs.k8s.io/controller-runtime/pkg/source"

	"kelson.dev/operator/adapter/cluster"
	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/manager"
)

// Builder builds a controller, as controller-runtime's builder does.
type Builder struct {
	m       *manager.Manager
	name    string
	primary watch                   // of For; without object if For was not called
	all     []crpredicate.Predicate // for all kinds
	options crcontroller.Options
	watches []watch
	raw     []crsource.Source
	logs    func(*crreconcile.Request) logr.Logger
}

type watch struct {
	object  crclient.Object
	handler crhandler.EventHandler // nil: enqueue the owner
	every   bool                   // all owner references, not only the controller's
	meta    bool                   // watch and cache only metadata
	wanted  []crpredicate.Predicate
}

// NewControllerManagedBy starts to build a controller for a manager.
func NewControllerManagedBy(m *manager.Manager) *Builder { return &Builder{m: m} }

// Option configures For, Owns and Watches.
type Option func(*watch)

// WithPredicates drops events that one of the predicates rejects.
func WithPredicates(predicates ...crpredicate.Predicate) Option {
	return func(w *watch) { w.wanted = append(w.wanted, predicates...) }
}

// MatchEveryOwner makes Owns reconcile all owners of the kind, not only the controller.
func MatchEveryOwner(w *watch) { w.every = true }

// OnlyMetadata watches and caches only the metadata of a kind. Events then have objects of type
// metav1.PartialObjectMetadata. Read such objects with that type too, or they are cached twice.
func OnlyMetadata(w *watch) { w.meta = true }

// For sets the kind to reconcile. A builder without For needs Named, and another watch.
func (b *Builder) For(object crclient.Object, opts ...Option) *Builder {
	b.primary = watch{object: object}
	for _, opt := range opts {
		opt(&b.primary)
	}
	return b
}

// Owns watches a kind and reconciles the owner of a changed object.
func (b *Builder) Owns(object crclient.Object, opts ...Option) *Builder {
	return b.Watches(object, nil, opts...)
}

// Watches watches a kind and reconciles what the handler enqueues.
func (b *Builder) Watches(object crclient.Object, h crhandler.EventHandler, opts ...Option) *Builder {
	w := watch{object: object, handler: h}
	for _, opt := range opts {
		opt(&w)
	}
	b.watches = append(b.watches, w)
	return b
}

// WatchesMetadata is Watches with OnlyMetadata.
func (b *Builder) WatchesMetadata(object crclient.Object, h crhandler.EventHandler, opts ...Option) *Builder {
	return b.Watches(object, h, append(opts, OnlyMetadata)...)
}

// WatchesRawSource adds a source of controller-runtime, such as source.Channel. Predicates of the
// builder do not apply to it. Its requests are for the manager's own cluster.
func (b *Builder) WatchesRawSource(s crsource.Source) *Builder {
	b.raw = append(b.raw, s)
	return b
}

// WithLogConstructor sets the function that creates the logger in the reconciler's context.
func (b *Builder) WithLogConstructor(newLogger func(*crreconcile.Request) logr.Logger) *Builder {
	b.logs = newLogger
	return b
}

// Named sets the name of the controller; by default its kind in lower case.
func (b *Builder) Named(name string) *Builder { b.name = name; return b }

// WithEventFilter adds a predicate for all watched kinds.
func (b *Builder) WithEventFilter(p crpredicate.Predicate) *Builder {
	b.all = append(b.all, p)
	return b
}

// WithOptions sets MaxConcurrentReconciles, CacheSyncTimeout, ReconciliationTimeout,
// NeedLeaderElection, RateLimiter and LogConstructor; other options are ignored.
func (b *Builder) WithOptions(o crcontroller.Options) *Builder { b.options = o; return b }

// Complete adds the controller to the manager.
func (b *Builder) Complete(r crreconcile.Reconciler) error {
	_, err := b.Build(r)
	return err
}

// Build adds the controller to the manager and returns it, so that sources can be added later.
func (b *Builder) Build(r crreconcile.Reconciler) (*controller.Controller, error) {
	if r == nil {
		return nil, errors.New("must provide a non-nil Reconciler")
	}
	kind, err := b.kind()
	if err != nil {
		return nil, err
	}
	if b.name == "" {
		b.name = strings.ToLower(kind.Kind)
	}
	logs := b.logs
	if logs == nil {
		logs = b.options.LogConstructor
	}
	cfg := controller.Config{
		Name: b.name, Kind: kind.Kind, Reconciler: &reconciler{upstream: r, logs: logs},
		Concurrency: max(0, b.options.MaxConcurrentReconciles),
		SyncTimeout: b.options.CacheSyncTimeout, ReconcileTimeout: max(0, b.options.ReconciliationTimeout),
	}
	if b.primary.object != nil {
		if cfg.Scope, err = b.m.Informers().ScopeOf(b.primary.object); err != nil {
			return nil, err
		}
	}
	if n := b.options.NeedLeaderElection; n != nil {
		cfg.EveryReplica = !*n
	}
	if l := b.options.RateLimiter; l != nil {
		cfg.Limiter = limiter{l}
	}
	c, err := b.m.NewController(cfg)
	if err != nil {
		return nil, err
	}
	for _, raw := range b.raw {
		if _, err := c.Watch(rawSource{raw, b.m.Log()}); err != nil {
			return nil, err
		}
	}
	return c, b.m.OnCluster(func(in *manager.Cluster) error {
		if b.primary.object != nil {
			source, err := b.source(in, b.primary)
			if err == nil {
				_, err = c.Watch(source)
			}
			if err != nil {
				return err
			}
		}
		for _, w := range b.watches {
			source, err := b.watched(in, w, kind)
			if err == nil {
				_, err = c.Watch(source)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// kind returns the reconciled kind, if For was called, and checks the calls of the builder.
func (b *Builder) kind() (schema.GroupVersionKind, error) {
	if b.primary.object != nil {
		return client.KindOf(b.primary.object, b.m.Client().Scheme())
	}
	none := schema.GroupVersionKind{}
	for _, w := range b.watches {
		if w.handler == nil {
			return none, errors.New("can't watch owned kinds: Owns() can only be used together with For()")
		}
	}
	if len(b.watches) == 0 && len(b.raw) == 0 {
		return none, errors.New("no watches configured: call For, Owns, Watches or WatchesRawSource")
	}
	if b.name == "" {
		return none, errors.New("controller must be named: call Named or For")
	}
	return none, nil
}

// source returns the source of a watch in a cluster, with the default handler.
func (b *Builder) source(in *manager.Cluster, w watch) (*controller.Kind, error) {
	object := w.object
	if w.meta {
		kind, err := client.KindOf(object, b.m.Client().Scheme())
		if err != nil {
			return nil, err
		}
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(kind)
		object = metadata
	}
	return &controller.Kind{Informers: in.Informers(), Cluster: in.Name(), Object: object,
		Predicates: b.predicates(w.wanted)}, nil
}

// watched returns the source of an additional watch in a cluster.
func (b *Builder) watched(in *manager.Cluster, w watch, owner schema.GroupVersionKind) (controller.Source, error) {
	kind, err := b.source(in, w)
	switch {
	case err != nil:
		return nil, err
	case w.handler != nil:
		kind.Stateful = true // it may be, for example with expectations
		return &handled{Kind: kind, handler: w.handler}, nil
	case w.every:
		owners := crhandler.EnqueueRequestForOwner(cluster.WholeScheme(in.Client().Scheme()), in.Client().Mapper(),
			b.primary.object)
		return &handled{Kind: kind, handler: owners}, nil
	}
	kind.Handler = controller.EnqueueOwner(owner, in.Client().Mapper())
	return kind, nil
}

func (b *Builder) predicates(upstream []crpredicate.Predicate) []controller.Predicate {
	var all []controller.Predicate
	for _, p := range append(append([]crpredicate.Predicate{}, b.all...), upstream...) {
		all = append(all, Predicate(p))
	}
	return all
}
