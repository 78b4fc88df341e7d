// Package adapter runs programs and reconcilers written for controller-runtime on
// kelson.dev/operator.
//
// # A whole program
//
// [NewManager] takes the place of ctrl.NewManager, and nothing else changes:
//
//	mgr, err := adapter.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{…})
//
// The program keeps controller-runtime's builder, controllers and webhooks. Its cache and client are
// the library's: reads see the program's own writes, and reconciles can be traced.
//
// # Single reconcilers
//
// A reconciler can instead run on the library's own manager. It then gains the features of its
// controllers too: queues with aging, shards, and readiness checks that name missing permissions.
// In SetupWithManager, only the builder changes. Its methods are those of controller-runtime's.
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
// The package is a separate module, so that only its users depend on controller-runtime.
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

	"kelson.dev/operator/adapter/cluster"
	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/workqueue"
)

// Builder builds a controller, as controller-runtime's builder does.
type Builder struct {
	m       *manager.Manager
	name    string
	object  crclient.Object
	wanted  []crpredicate.Predicate // for the controller's own kind
	all     []crpredicate.Predicate // for all kinds
	options crcontroller.Options
	watches []watch
}

type watch struct {
	object  crclient.Object
	handler crhandler.EventHandler // nil: enqueue the owner
	every   bool                   // all owner references, not only the controller's
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

// For sets the kind to reconcile.
func (b *Builder) For(object crclient.Object, opts ...Option) *Builder {
	w := watch{}
	for _, opt := range opts {
		opt(&w)
	}
	b.object, b.wanted = object, w.wanted
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

// Named sets the name of the controller; by default its kind in lower case.
func (b *Builder) Named(name string) *Builder { b.name = name; return b }

// WithEventFilter adds a predicate for all watched kinds.
func (b *Builder) WithEventFilter(p crpredicate.Predicate) *Builder {
	b.all = append(b.all, p)
	return b
}

// WithOptions sets MaxConcurrentReconciles, CacheSyncTimeout, ReconciliationTimeout,
// NeedLeaderElection and RateLimiter; other options are ignored.
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
	return b.m.OnCluster(func(of *manager.Cluster) error {
		own := &controller.Kind{
			Informers: of.Informers(), Cluster: of.Name(), Object: b.object, Predicates: b.predicates(b.wanted),
		}
		if _, err := c.Watch(own); err != nil {
			return err
		}
		for _, w := range b.watches {
			kindSource := &controller.Kind{
				Informers: of.Informers(), Cluster: of.Name(), Object: w.object, Predicates: b.predicates(w.wanted),
			}
			source := controller.Source(kindSource)
			switch {
			case w.handler != nil:
				source = &handled{Kind: kindSource, handler: w.handler}
			case w.every:
				owners := crhandler.EnqueueRequestForOwner(cluster.WholeScheme(of.Client().Scheme()), of.Client().Mapper(), b.object)
				source = &handled{Kind: kindSource, handler: owners}
			default:
				kindSource.Handler = controller.EnqueueOwner(kind, of.Client().Mapper())
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

// Reconciler adapts a reconciler of controller-runtime. Its context has the logger for
// controller-runtime's log.FromContext.
func Reconciler(r crreconcile.Reconciler) reconcile.Reconciler { return &reconciler{of: r} }

type reconciler struct {
	of crreconcile.Reconciler

	mu sync.Mutex
	// by cluster: backoff of objects that returned Requeue
	again map[string]*workqueue.Exponential[reconcile.Request]
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

// Disengage drops the state of a cluster's objects.
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

// theirs returns a request for a controller-runtime limiter. It adds the cluster to the namespace,
// to distinguish objects of the same name in different clusters.
func theirs(r reconcile.Request) crreconcile.Request {
	t := crreconcile.Request{NamespacedName: r.NamespacedName}
	if r.Cluster != "" {
		t.Namespace = r.Cluster + ":" + r.Namespace
	}
	return t
}

var errNoGet = errors.New("handlers may only add to the queue")
