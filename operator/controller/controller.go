package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"kelson.dev/operator/leader"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
	"kelson.dev/operator/workqueue"
)

// Config describes a Controller.
type Config struct {
	// Name of the controller in logs, metrics and traces; required.
	Name string
	// Kind of the objects it reconciles, for logs and traces.
	Kind string
	// Reconciler does the work; required. If it keeps something of each cluster, a method Disengage(cluster string) is told of those that
	// are disengaged.
	Reconciler reconcile.Reconciler
	// Sources say when.
	Sources []Source
	// Concurrency is the number of workers, and so of Reconciles that are under way at a time; 1 if zero. If there are several, a worker
	// goes on with another object when a reconciler that is Yielding has only its last write left; up to twice as many objects as there
	// are workers wait for such a write.
	Concurrency int
	// ReconcileTimeout, if positive, bounds each Reconcile: its context ends then.
	ReconcileTimeout time.Duration
	// GracePeriod is how long a Reconcile may go on after the end of Run's context, before its own context ends, too. Zero: at
	// once. It is at once, too, if the cause of that end is leader.ErrLost: somebody else may be working by then.
	GracePeriod time.Duration
	// SyncTimeout bounds the wait for the sources to be synced; 2 minutes if zero.
	SyncTimeout time.Duration
	// Limiter is the backoff of errors; workqueue.DefaultLimiter if nil.
	Limiter workqueue.Limiter[reconcile.Request]
	// EveryReplica has a manager run the controller although another replica leads.
	EveryReplica bool
	// Gate, if any, says whether an object is this replica's business now.
	Gate Gate
	// Clusters, if any, are those that requests may name: requests for others are dropped. If nil, all are taken to be there.
	Clusters Clusters
	// Log is where errors are told; slog.Default() if nil.
	Log *slog.Logger
	// Tracer, if any, keeps the account.
	Tracer *trace.Tracer
	// Metrics, if any, is told of each reconcile, and QueueMetrics of the queue.
	Metrics      Metrics
	QueueMetrics workqueue.Metrics
}

// Metrics is told what a controller does. It is called by all workers.
type Metrics interface {
	// Started is called before a Reconcile, Freed when its worker is free for another, and Ended after it; outcome is one of "success",
	// "requeue_after", "error", "conflict", "terminal", "disengaged" (an error in a cluster that was taken away meanwhile).
	Started()
	Freed()
	Ended(outcome string, took time.Duration)
	// Panicked is called for a Reconcile that panicked.
	Panicked()
}

// Controller calls a reconciler for what its sources say.
type Controller struct {
	cfg     Config
	queue   *Queue
	parked  parked
	sources sources
	begun   begun

	dropping sync.RWMutex // see keep
}

// aging lets what was there at the start wait for newer events for a second at most.
const aging = time.Second / -initialPriority

// New makes a controller. It does nothing until it runs.
func New(cfg Config) (*Controller, error) {
	if cfg.Name == "" || cfg.Reconciler == nil {
		return nil, errors.New("new controller: Config.Name and Config.Reconciler are required")
	}
	if cfg.Concurrency == 0 {
		cfg.Concurrency = 1
	}
	if cfg.SyncTimeout == 0 {
		cfg.SyncTimeout = 2 * time.Minute
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	cfg.Log = cfg.Log.With("controller", cfg.Name)
	if cfg.Metrics == nil {
		cfg.Metrics = noMetrics{}
	}
	c := &Controller{cfg: cfg, queue: workqueue.New(workqueue.Config[reconcile.Request, trace.Causes]{
		Merge:   trace.Causes.Merge,
		Limiter: cfg.Limiter,
		Aging:   aging,
		Metrics: cfg.QueueMetrics,
	})}
	c.sources.queue = c.queue
	for _, s := range cfg.Sources {
		if _, err := c.sources.add(s); err != nil {
			return nil, err // never: they are not started
		}
	}
	return c, nil
}

// Name is the controller's name.
func (c *Controller) Name() string { return c.cfg.Name }

// Concurrency is the number of its workers.
func (c *Controller) Concurrency() int { return c.cfg.Concurrency }

// Queue is what the controller works off.
func (c *Controller) Queue() *Queue { return c.queue }

// EveryReplica says whether the controller works also where another replica leads.
func (c *Controller) EveryReplica() bool { return c.cfg.EveryReplica }

// Warm starts the sources, if they are not, until ctx ends: a controller that does not work yet has its queue full and its informers
// synced when it may begin. It returns at once.
func (c *Controller) Warm(ctx context.Context) error {
	if err := c.sources.start(c.begun.in(trace.NewContext(ctx, c.cfg.Tracer))); err != nil {
		return fmt.Errorf("controller %s: %w", c.cfg.Name, err)
	}
	return nil
}

// Watch adds a source, at any time. stop ends it, and so does Disengage if the source has a method OfCluster() string with the name of that
// cluster, as Kind has.
func (c *Controller) Watch(s Source) (stop func(), err error) { return c.sources.add(s) }

// Run starts the sources and, when those of the manager's own cluster are synced, the workers. When ctx ends, workers finish what they
// have begun, for which they have the grace period, and take nothing new. It can be called once. It returns nil, unless a source fails
// or is not synced in time.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	sources, cancel := context.WithCancel(ctx)
	defer cancel()
	err := c.sources.start(c.begun.in(trace.NewContext(sources, c.cfg.Tracer)))
	if err == nil {
		err = c.sources.waitSynced(ctx, c.cfg.SyncTimeout)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("controller %s: %w", c.cfg.Name, err)
	}
	graceful, end := outlive(ctx, c.cfg.GracePeriod)
	defer end()
	if c.cfg.Gate != nil {
		defer c.openGate(sources)()
	}
	crew := newCrew(c.cfg.Concurrency, func(w *worker) bool { return c.work(ctx, graceful, w) })
	for range c.cfg.Concurrency {
		crew.start(ctx)
	}
	crew.workers.Wait()
	return nil
}

// outlive is a context that ends some time after its parent, or when end is called.
func outlive(parent context.Context, by time.Duration) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		if errors.Is(context.Cause(parent), leader.ErrLost) {
			by = 0
		}
		time.AfterFunc(by, func() { cancel(context.Cause(parent)) })
	})
	return ctx, func() { stop(); cancel(context.Canceled) }
}

// work takes one request from the queue. False says that there will be none.
func (c *Controller) work(ctx, graceful context.Context, w *worker) bool {
	item, err := c.queue.Get(ctx)
	if err != nil {
		return false
	}
	if v, there := c.visit(graceful, item.Key, item.Payload); there {
		if leave, ours := c.enter(v, item.Key, item.Payload); ours {
			c.process(v, w, item.Key, item.Payload)
			leave()
		}
		v.end()
	}
	c.queue.Done(item)
	return true
}

// process reconciles one object and queues it again if that is called for.
func (c *Controller) process(v visit, w *worker, req reconcile.Request, causes trace.Causes) {
	ctx, log := v.ctx, c.cfg.Log.With("namespace", req.Namespace, "name", req.Name)
	if req.Cluster != "" {
		log = log.With("cluster", req.Cluster)
		ctx = reconcile.WithCluster(ctx, req.Cluster)
	}
	ctx, span := c.cfg.Tracer.Start(ctx, trace.Record{Controller: c.cfg.Name, Kind: c.cfg.Kind, Request: req, Causes: causes})
	start := time.Now()
	c.begun.note(req, start)
	c.cfg.Metrics.Started()
	result, err := c.reconcile(reconcile.WithLog(ctx, log), w, req)
	outcome := c.settle(v, log, req, result, err)
	if w.placed {
		c.cfg.Metrics.Freed()
	}
	c.cfg.Metrics.Ended(outcome, time.Since(start))
	span.End(result, err)
}

func (c *Controller) settle(v visit, log *slog.Logger, req reconcile.Request, result reconcile.Result, err error) string {
	release, ok := c.keep(v)
	if !ok {
		return c.abandon(log, req, err)
	}
	defer release()
	retry := func() { c.queue.AddRateLimited(req, trace.Because(trace.Cause{Event: trace.Retry})) }
	switch {
	case err == nil && result.RequeueAfter > 0:
		c.queue.Forget(req)
		c.queue.AddAfter(req, trace.Because(trace.Cause{Event: trace.After}), result.RequeueAfter)
		return "requeue_after"
	case err == nil:
		c.queue.Forget(req)
		return "success"
	case reconcile.IsTerminal(err):
		c.queue.Forget(req)
		log.Error("reconcile failed and is not tried again", "err", err)
		return "terminal"
	case reconcile.IsConflict(err):
		retry()
		log.Debug("reconcile met a conflict and is tried again", "err", err)
		return "conflict"
	}
	retry()
	args := []any{"err", err}
	if p := (*reconcile.PanicError)(nil); errors.As(err, &p) {
		c.cfg.Metrics.Panicked()
		args = append(args, "stack", string(p.Stack))
	}
	log.Error("reconcile failed", args...)
	return "error"
}

// reconcile calls the reconciler, within its time, and makes an error of a panic.
func (c *Controller) reconcile(ctx context.Context, w *worker, req reconcile.Request) (result reconcile.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = reconcile.Result{}, &reconcile.PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	if c.cfg.ReconcileTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.cfg.ReconcileTimeout,
			fmt.Errorf("reconcile took longer than %v", c.cfg.ReconcileTimeout))
		defer cancel()
	}
	if r, ok := c.cfg.Reconciler.(reconcile.Yielding); ok {
		return r.ReconcileYielding(ctx, req, func() {
			if w.yield() {
				c.cfg.Metrics.Freed()
			}
		})
	}
	return c.cfg.Reconciler.Reconcile(ctx, req)
}

type noMetrics struct{}

func (noMetrics) Started()                    {}
func (noMetrics) Freed()                      {}
func (noMetrics) Ended(string, time.Duration) {}
func (noMetrics) Panicked()                   {}
