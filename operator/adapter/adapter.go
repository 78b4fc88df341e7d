// Package adapter runs reconcilers that were written for controller-runtime on kelson.dev/operator. They get what its controllers have: reads that
// are never behind their own writes, causes and traces, aging queues, shards, readiness that names what is missing.
//
// # Use
//
// A SetupWithManager changes in one line: the builder comes from here. Its calls are those of controller-runtime's.
//
//	func (r *FooReconciler) SetupWithManager(m *manager.Manager) error {
//		return adapter.NewControllerManagedBy(m).
//			For(&foov1.Foo{}).
//			Owns(&appsv1.Deployment{}).
//			Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.foosOf)).
//			Complete(r)
//	}
//
// The reconciler's client is [Client]:
//
//	operator.Main(
//		operator.AddToScheme(foov1.AddToScheme),
//		operator.Setup(func(deps operator.Deps) error {
//			c := adapter.Client(deps.Manager)
//			r := &FooReconciler{Client: c, Scheme: c.Scheme()}
//			return r.SetupWithManager(deps.Manager)
//		}),
//	)
//
// A module of its own, so that nobody else depends on controller-runtime.
package adapter

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	crcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	crhandler "sigs.k8s.io/controller-runtime/pkg/handler"
	crpredicate "sigs.k8s.io/controller-runtime/pkg/predicate"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/workqueue"
)

// Builder makes a controller, as controller-runtime's builder does.
type Builder struct {
	m       *manager.Manager
	name    string
	object  crclient.Object
	wanted  []crpredicate.Predicate // of the controller's own kind
	all     []crpredicate.Predicate // of everything
	options crcontroller.Options
	watches []watch
}

type watch struct {
	object  crclient.Object
	handler crhandler.EventHandler // nil: the owner
	every   bool                   // any owner reference, and not the controller's only
	wanted  []crpredicate.Predicate
}

// NewControllerManagedBy begins a controller of a manager.
func NewControllerManagedBy(m *manager.Manager) *Builder { return &Builder{m: m} }

// Option changes what For, Owns and Watches do.
type Option func(*watch)

// WithPredicates drops events that one of them does not let pass.
func WithPredicates(predicates ...crpredicate.Predicate) Option {
	return func(w *watch) { w.wanted = append(w.wanted, predicates...) }
}

// MatchEveryOwner has Owns reconcile any owner of the kind, and not only the one that is the controller.
func MatchEveryOwner(w *watch) { w.every = true }

// For says which kind is reconciled.
func (b *Builder) For(object crclient.Object, opts ...Option) *Builder {
	w := watch{}
	for _, opt := range opts {
		opt(&w)
	}
	b.object, b.wanted = object, w.wanted
	return b
}

// Owns has a change of an object reconcile the one that owns it.
func (b *Builder) Owns(object crclient.Object, opts ...Option) *Builder {
	return b.Watches(object, nil, opts...)
}

// Watches has a change of an object reconcile what a handler says.
func (b *Builder) Watches(object crclient.Object, h crhandler.EventHandler, opts ...Option) *Builder {
	w := watch{object: object, handler: h}
	for _, opt := range opts {
		opt(&w)
	}
	b.watches = append(b.watches, w)
	return b
}

// Named is the name of the controller; by default its kind in lower case.
func (b *Builder) Named(name string) *Builder { b.name = name; return b }

// WithEventFilter adds a predicate to everything that is watched.
func (b *Builder) WithEventFilter(p crpredicate.Predicate) *Builder {
	b.all = append(b.all, p)
	return b
}

// WithOptions sets MaxConcurrentReconciles, CacheSyncTimeout, ReconciliationTimeout, NeedLeaderElection and RateLimiter; others do not count.
func (b *Builder) WithOptions(o crcontroller.Options) *Builder { b.options = o; return b }

// Complete adds the controller to the manager.
func (b *Builder) Complete(r crreconcile.Reconciler) error {
	if b.object == nil {
		return errors.New("must provide an object for reconciliation: call For")
	}
	kind, err := client.KindOf(b.object, b.m.Client().Scheme())
	if err != nil {
		return err
	}
	if b.name == "" {
		b.name = strings.ToLower(kind.Kind)
	}
	cfg := controller.Config{
		Name: b.name, Kind: kind.Kind, Reconciler: Reconciler(r), Concurrency: b.options.MaxConcurrentReconciles,
		SyncTimeout: b.options.CacheSyncTimeout, ReconcileTimeout: b.options.ReconciliationTimeout,
	}
	if n := b.options.NeedLeaderElection; n != nil {
		cfg.EveryReplica = !*n
	}
	if l := b.options.RateLimiter; l != nil {
		cfg.Limiter = limiter{l}
	}
	c, err := b.m.NewController(cfg)
	if err != nil {
		return err
	}
	return b.m.OnCluster(func(cluster *manager.Cluster) error {
		own := &controller.Kind{
			Informers: cluster.Informers(), Cluster: cluster.Name(), Object: b.object, Predicates: b.predicates(b.wanted),
		}
		if _, err := c.Watch(own); err != nil {
			return err
		}
		for _, w := range b.watches {
			kindSource := &controller.Kind{
				Informers: cluster.Informers(), Cluster: cluster.Name(), Object: w.object, Predicates: b.predicates(w.wanted),
			}
			source := controller.Source(kindSource)
			switch {
			case w.handler != nil:
				source = &handled{Kind: kindSource, handler: w.handler}
			case w.every:
				owners := crhandler.EnqueueRequestForOwner(wholeScheme(cluster.Client().Scheme()), cluster.Client().Mapper(), b.object)
				source = &handled{Kind: kindSource, handler: owners}
			default:
				kindSource.Handler = controller.EnqueueOwner(kind, cluster.Client().Mapper())
			}
			if _, err := c.Watch(source); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *Builder) predicates(of []crpredicate.Predicate) []controller.Predicate {
	var all []controller.Predicate
	for _, p := range append(append([]crpredicate.Predicate{}, b.all...), of...) {
		all = append(all, Predicate(p))
	}
	return all
}

// Reconciler is one of controller-runtime's as one of ours. Its context has the logger where controller-runtime's log.FromContext looks.
func Reconciler(r crreconcile.Reconciler) reconcile.Reconciler { return &reconciler{of: r} }

type reconciler struct {
	of crreconcile.Reconciler

	mu    sync.Mutex
	again map[string]*workqueue.Exponential[reconcile.Request] // by cluster: when objects that asked for Requeue have their turn
}

func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ctx = logr.NewContext(ctx, logr.FromSlogHandler(reconcile.Log(ctx).Handler()))
	result, err := r.of.Reconcile(ctx, crreconcile.Request{NamespacedName: req.NamespacedName})
	switch {
	case errors.Is(err, crreconcile.TerminalError(nil)):
		return reconcile.Result{}, reconcile.Terminal(err)
	case err != nil:
		return reconcile.Result{}, err
	case result.RequeueAfter > 0:
		r.turns(req.Cluster).Forget(req)
		return reconcile.Result{RequeueAfter: result.RequeueAfter}, nil
	//lint:ignore SA1019 there are reconcilers that use it
	case result.Requeue:
		return reconcile.Result{RequeueAfter: r.turns(req.Cluster).When(req)}, nil
	}
	r.turns(req.Cluster).Forget(req)
	return reconcile.Result{}, nil
}

func (r *reconciler) turns(cluster string) *workqueue.Exponential[reconcile.Request] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.again == nil {
		r.again = map[string]*workqueue.Exponential[reconcile.Request]{}
	}
	if r.again[cluster] == nil {
		r.again[cluster] = &workqueue.Exponential[reconcile.Request]{Base: 5 * time.Millisecond, Max: 1000 * time.Second}
	}
	return r.again[cluster]
}

// Disengage forgets what is known of a cluster's objects.
func (r *reconciler) Disengage(cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.again, cluster)
}

type limiter struct {
	of interface {
		When(crreconcile.Request) time.Duration
		Forget(crreconcile.Request)
		NumRequeues(crreconcile.Request) int
	}
}

func (l limiter) When(r reconcile.Request) time.Duration { return l.of.When(theirs(r)) }
func (l limiter) Forget(r reconcile.Request)             { l.of.Forget(theirs(r)) }
func (l limiter) NumRequeues(r reconcile.Request) int    { return l.of.NumRequeues(theirs(r)) }

// theirs is a request as a limiter is given it. Objects of several clusters that have one name are told apart by the namespace.
func theirs(r reconcile.Request) crreconcile.Request {
	t := crreconcile.Request{NamespacedName: r.NamespacedName}
	if r.Cluster != "" {
		t.Namespace = r.Cluster + ":" + r.Namespace
	}
	return t
}

var errNoGet = errors.New("a handler may add to the queue, and nothing else")
