package operator

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/events"
	"kelson.dev/operator/leader"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/reconcile"
)

// For adds a controller for the kind T, the parameter of R's method
//
//	Reconcile(ctx context.Context, obj *T) (Result, error)
//
// R may also have a method Finalize of the same form, which the controller calls before an object
// of the kind is deleted; see reconcile.Finalizer. construct creates the reconciler. It takes an
// operator.Client or operator.Deps.
func For[D, T any, R reconcile.Typed[T], P client.Pointer[T]](construct func(D) R, opts ...Option) Part {
	return build[D, T, R, P](construct, opts, func(r R, deps Deps, s *settings) (reconcile.Reconciler, error) {
		cfg := reconcile.TypedConfig{Client: deps.Client, Finalizer: s.finalizer, Recorder: deps.recorder,
			Deleted: deps.deleted}
		if !s.kind.Empty() {
			cfg.Prototype = ofKind[T, P](s.kind)
		}
		return reconcile.For[T, P](r, cfg)
	})
}

// ForRequests adds a controller for kind T whose reconciler takes requests, as reconcile.Reconciler
// does. It gets the names of objects, including deleted ones, and reads objects and writes status
// itself.
func ForRequests[T, D any, R reconcile.Reconciler, P client.Pointer[T]](construct func(D) R, opts ...Option) Part {
	return build[D, T, R, P](construct, opts, func(r R, _ Deps, _ *settings) (reconcile.Reconciler, error) {
		return r, nil
	})
}

func build[D, T, R any, P client.Pointer[T]](construct func(D) R, opts []Option,
	adapt func(R, Deps, *settings) (reconcile.Reconciler, error)) Part {
	s := &settings{}
	for _, opt := range opts {
		opt(s)
	}
	return partFunc(func(p *parts) error {
		p.start = append(p.start, func(h *host) error {
			if err := buildIn(h, s.clone(), P(new(T)), construct, adapt); err != nil {
				return fmt.Errorf("controller for %v: %w", reflect.TypeFor[T](), err)
			}
			return nil
		})
		return nil
	})
}

func buildIn[D, R any](h *host, s *settings, object Object, construct func(D) R,
	adapt func(R, Deps, *settings) (reconcile.Reconciler, error)) error {
	if !s.kind.Empty() {
		object.GetObjectKind().SetGroupVersionKind(s.kind)
	}
	kind, err := client.KindOf(object, h.Client().Scheme())
	if err != nil {
		return fmt.Errorf("%w (is its AddToScheme among the parts?)", err)
	}
	if s.resync < 0 {
		return fmt.Errorf("Resync(%v): the period must not be negative", s.resync)
	}
	if s.name == "" {
		s.name = strings.ToLower(kind.Kind)
	}
	if s.finalizer == "" {
		s.finalizer = finalizerName(kind.Group, s.name)
	}
	deps := h.deps(s.name)
	var c *controller.Controller
	deps.Watch = func(source controller.Source) (func(), error) {
		if c == nil {
			return nil, fmt.Errorf("controller %s: Deps.Watch was called in the constructor: call it from Reconcile",
				s.name)
		}
		return c.Watch(source)
	}
	live := &liveWatches{manager: h.Manager, name: s.name, watching: watching{owner: kind, settings: s}}
	deps.WatchFor = live.set
	deps.deleted = func(ctx context.Context, req Request) {
		if cluster, err := h.ClusterFrom(ctx); err == nil {
			live.deleted(cluster, req.NamespacedName)
		}
	}
	d, err := pick[D](deps)
	if err != nil {
		return err
	}
	reconciler := construct(d)
	live.watching.reconciler = reconciler
	adapted, err := adapt(reconciler, deps, s)
	if err != nil {
		return err
	}
	scope, err := h.Informers().ScopeOf(object)
	if err != nil {
		return err
	}
	cfg := controller.Config{
		Name: s.name, Kind: kind.Kind, Reconciler: adapted, EveryReplica: s.every, Scope: scope,
		Concurrency: s.concurrency, ReconcileTimeout: s.timeout, Limiter: s.limiter,
	}
	if s.sharded {
		if cfg.Gate, err = h.shards(); err != nil {
			return err
		}
	}
	if c, err = h.NewController(cfg); err != nil {
		return err
	}
	live.controller = c
	// Each cluster has its own sources.
	return h.OnCluster(func(cluster *manager.Cluster) error {
		in := watching{cluster: cluster, owner: kind, reconciler: reconciler, settings: s}
		primary := in.on(object, nil, s.predicates)
		primary.Resync = s.resync
		primary.Predicates = slices.Insert(primary.Predicates, 0, live.noteDeletions(cluster, object))
		if _, err := c.Watch(primary); err != nil {
			return err
		}
		for _, watch := range s.watches {
			source, err := watch.source(in)
			if err != nil {
				return err
			}
			if source != nil {
				if _, err := c.Watch(source); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// pick returns the dependencies in the form that a constructor takes.
func pick[D any](deps Deps) (D, error) {
	var d D
	switch want := any(&d).(type) {
	case *Deps:
		*want = deps
	case *Client:
		*want = deps.Client
	default:
		return d, fmt.Errorf("the constructor takes a %v: it must take an operator.Client or operator.Deps",
			reflect.TypeFor[D]())
	}
	return d, nil
}

// finalizerName returns a finalizer name that is unique to a controller and has a domain, as
// Kubernetes requires.
func finalizerName(group, name string) string {
	if !strings.Contains(group, ".") {
		group = "kelson.dev"
	}
	return group + "/" + name
}

// host is the manager to which the parts of an operator add themselves.
type host struct {
	*manager.Manager
	name       string
	election   *leader.Config // nil if there is none
	sharing    *leader.Shards // nil until a controller is sharded
	noWebhooks bool
}

// shards returns the Shards that all sharded controllers of the operator share.
func (h *host) shards() (*leader.Shards, error) {
	if h.sharing != nil {
		return h.sharing, nil
	}
	cfg := leader.ShardsConfig{Client: h.LiveClient(),
		Group: client.Key{Namespace: manager.InClusterNamespace(), Name: h.name + "-shards"}, Log: h.Manager.Log()}
	if h.election != nil {
		cfg.Duration, cfg.RenewDeadline, cfg.RetryPeriod = h.election.Duration, h.election.RenewDeadline,
			h.election.RetryPeriod
		if h.election.Lease.Namespace != "" {
			cfg.Group.Namespace = h.election.Lease.Namespace
		}
	}
	if cfg.Group.Namespace == "" {
		cfg.Group.Namespace = "default" // outside of a cluster
	}
	shards, err := leader.NewShards(cfg)
	if err != nil {
		return nil, err
	}
	h.sharing = shards
	h.AddShards(shards)
	return shards, nil
}

func (h *host) deps(name string) Deps {
	onlyInReconcile := func(method string) error {
		return fmt.Errorf("%s can only be called by a reconciler that operator.For or operator.ForRequests constructed",
			method)
	}
	return Deps{
		Watch:    func(controller.Source) (func(), error) { return nil, onlyInReconcile("Deps.Watch") },
		WatchFor: func(context.Context, ...Option) error { return onlyInReconcile("Deps.WatchFor") },
		Client:   h.Client(), Live: h.LiveClient(), Events: h.Recorder(name),
		recorder: recorder{h.Recorder(name), h.Manager, name},
		Log:      h.Manager.Log().With("controller", name), Informers: h.Informers(), Manager: h.Manager,
	}
}

func (h *host) background(run func(context.Context, Deps) error) {
	deps := h.deps("")
	deps.Log = h.Manager.Log()
	h.Add(manager.Func(func(ctx context.Context) error { return run(ctx, deps) }))
}

// recorder records events in the cluster of the current reconcile.
type recorder struct {
	*events.Recorder // of the manager's own
	m                *manager.Manager
	name             string
}

func (r recorder) In(ctx context.Context) reconcile.Recorder {
	cluster, err := r.m.ClusterFrom(ctx)
	if err != nil {
		return (*events.Recorder)(nil) // the cluster was disengaged, and its objects with it
	}
	return cluster.Recorder(r.name)
}
