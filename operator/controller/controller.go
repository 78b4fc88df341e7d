package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"kelson.dev/operator/informer"
	"kelson.dev/operator/leader"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
	"kelson.dev/operator/workqueue"
)

// Config describes a Controller.
type Config struct {
	// Name of the controller in logs, metrics and traces; required, and unique in a manager.
	Name string
	// Kind of the objects it reconciles, for logs and traces.
	Kind string
	// Reconciler reconciles objects; required. If it keeps state per cluster, it can implement
	// Disengage(cluster string), which the controller calls when a cluster is disengaged.
	Reconciler reconcile.Reconciler
	// Sources provide requests.
	Sources []Source
	// Concurrency is the number of concurrent Reconciles; 1 if zero. If it is more than 1, a worker
	// continues with another object when a Yielding reconciler has only its last write left; up to
	// twice as many objects as there are workers wait for such a write.
	Concurrency int
	// ReconcileTimeout, if positive, bounds each Reconcile, by its context.
	ReconcileTimeout time.Duration
	// GracePeriod is how long a Reconcile may continue after the end of Run's context, before its
	// own context ends. Zero means no grace. There is also no grace period if the controller ends
	// because of leader.ErrLost, because another replica may be working.
	GracePeriod time.Duration
	// SyncTimeout bounds the wait for the sources to sync; 2 minutes if zero.
	SyncTimeout time.Duration
	// Limiter is the backoff after errors; workqueue.DefaultLimiter if nil.
	Limiter workqueue.Limiter[reconcile.Request]
	// EveryReplica makes a manager run the controller on replicas that are not the leader.
	EveryReplica bool
	// Gate, if not nil, decides whether this replica may reconcile an object now.
	Gate Gate
	// Scope has the objects that the controller reconciles. Requests for others are dropped, from
	// every source; the log has a line for each cause. A request does not have the labels and
	// fields of its object, except for its name and namespace, so Scope cannot select by others.
	Scope informer.Scope
	// Clusters, if not nil, has the clusters that requests may name; requests for other clusters
	// are dropped. If nil, all clusters are taken as engaged.
	Clusters Clusters
	// Log receives errors; slog.Default() if nil.
	Log *slog.Logger
	// Tracer, if not nil, records the trace.
	Tracer *trace.Tracer
	// Metrics, if not nil, receives each reconcile, and QueueMetrics the state of the queue.
	Metrics      Metrics
	QueueMetrics workqueue.Metrics
}

// Metrics receives events of a controller. It must be safe for concurrent use.
type Metrics interface {
	// Started is called before a Reconcile, Freed when its worker can start another one, and Ended
	// after it. outcome is one of "success", "requeue_after", "error", "conflict", "terminal", and
	// "disengaged" (an error in a cluster that was disengaged in the meantime).
	Started()
	Freed()
	Ended(outcome string, took time.Duration)
	// Panicked is called after a Reconcile panicked, and TimedOut after one that continued until
	// the end of Config.ReconcileTimeout.
	Panicked()
	TimedOut()
	// PersistentConflict is called after a Reconcile that hit a conflict for at least the tenth
	// time in a row for its object.
	PersistentConflict()
}

// Controller calls a reconciler for the requests of its sources.
type Controller struct {
	cfg        Config
	queue      workQueue
	parked     parked
	sources    sources
	lastStarts lastStarts
	conflicts  conflicts

	dropping sync.RWMutex // see lockEngaged
	cutShort atomic.Bool  // a Reconcile was canceled at the end of the grace period
}

// aging bounds by how long newer events can overtake initial objects: one second.
const aging = time.Second / -initialPriority

// New returns a controller. It does nothing before Run or Warm.
func New(cfg Config) (*Controller, error) {
	if cfg.Name == "" || cfg.Reconciler == nil {
		return nil, errors.New("new controller: Config.Name and Config.Reconciler are required")
	}
	if cfg.Concurrency < 0 || cfg.ReconcileTimeout < 0 {
		return nil, fmt.Errorf("new controller: Config.Concurrency (%d) and Config.ReconcileTimeout (%v) must not be negative", cfg.Concurrency, cfg.ReconcileTimeout)
	}
	cfg.Concurrency = cmp.Or(cfg.Concurrency, 1)
	cfg.SyncTimeout = cmp.Or(cfg.SyncTimeout, 2*time.Minute)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	cfg.Log = cfg.Log.With("controller", cfg.Name)
	if cfg.Metrics == nil {
		cfg.Metrics = noMetrics{}
	}
	c := &Controller{cfg: cfg, queue: inScope(newQueue(&cfg), &cfg)}
	c.lastStarts.init()
	c.conflicts.init()
	c.sources.queue, c.sources.patience = c.queue, cfg.SyncTimeout
	for _, s := range cfg.Sources {
		if _, err := c.sources.add(s); err != nil {
			return nil, err // unreachable: sources start later
		}
	}
	return c, nil
}

// Name returns the controller's name.
func (c *Controller) Name() string { return c.cfg.Name }

// Concurrency returns the number of concurrent Reconciles.
func (c *Controller) Concurrency() int { return c.cfg.Concurrency }

// Queue returns the controller's queue.
func (c *Controller) Queue() Queue { return c.queue }

// EveryReplica reports whether the controller runs on replicas that are not the leader.
func (c *Controller) EveryReplica() bool { return c.cfg.EveryReplica }

// Warm starts the sources until ctx ends, unless they run already, so that the queue is filled and
// the informers are synced when the controller may work. It returns immediately.
func (c *Controller) Warm(ctx context.Context) error {
	if err := c.sources.start(c.lastStarts.newContext(trace.NewContext(ctx, c.cfg.Tracer))); err != nil {
		return fmt.Errorf("controller %s: %w", c.cfg.Name, err)
	}
	return nil
}

// Watch adds a source; it can be called at any time. stop removes the source. Disengage removes it
// too, if the source has a method OfCluster() string that returns the disengaged cluster, as Kind
// has.
func (c *Controller) Watch(s Source) (stop func(), err error) { return c.sources.add(s) }

// Run starts the sources and, when those of the manager's own cluster are synced, the workers. When
// ctx ends, workers finish their current object within the grace period and take no further ones.
// Run can be called only once. It returns an error if a source fails or is not synced in time, and
// leader.ErrStillWorking if a Reconcile was canceled at the end of the grace period: the server may
// still receive its last request, so another replica must not take over yet.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	sources, cancel := context.WithCancel(ctx)
	defer cancel()
	err := c.sources.start(c.lastStarts.newContext(trace.NewContext(sources, c.cfg.Tracer)))
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
	pool := newWorkerPool(c.cfg.Concurrency, func(w *worker) bool { return c.work(ctx, graceful, w) })
	for range c.cfg.Concurrency {
		pool.start(ctx)
	}
	pool.workers.Wait()
	if c.cutShort.Load() {
		return fmt.Errorf("controller %s: a reconcile was canceled at the end of the grace period: %w", c.cfg.Name,
			leader.ErrStillWorking)
	}
	return nil
}

// outlive returns a context that ends some time after its parent, or when end is called.
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

// work processes one request from the queue. It returns false when the queue has ended.
func (c *Controller) work(ctx, graceful context.Context, w *worker) bool {
	item, err := c.queue.Get(ctx)
	if err != nil {
		return false
	}
	if v, ok := c.visit(graceful, item.Key, item.Payload); ok {
		if leave, ours := c.enter(v, item.Key, item.Payload); ours {
			c.process(v, w, item)
			if graceful.Err() == nil {
				leave()
			} else { // the object stays this replica's until its Lease expires
				c.cutShort.Store(true)
			}
		}
		v.end()
	}
	c.queue.Done(item)
	return true
}

// process reconciles one object and queues it again if necessary.
func (c *Controller) process(v visit, w *worker, item workItem) {
	req := item.Key
	ctx, log := v.ctx, c.cfg.Log.With("namespace", req.Namespace, "name", req.Name)
	if req.Cluster != "" {
		log = log.With("cluster", req.Cluster)
		ctx = reconcile.WithCluster(ctx, req.Cluster)
	}
	ctx = reconcile.WithRequest(ctx, req)
	ctx, span := c.cfg.Tracer.Start(ctx, trace.Record{Controller: c.cfg.Name, Kind: c.cfg.Kind, Request: req,
		Causes: item.Payload})
	details := c.cfg.Tracer.Details()
	if details {
		span.Queued(c.queueState(item))
	}
	start := time.Now()
	c.lastStarts.set(req, start)
	c.cfg.Metrics.Started()
	result, err := c.reconcile(reconcile.WithLog(ctx, span.Log(log)), w, req)
	if result.RequeueAfter < 0 { // the time has passed
		result.RequeueAfter = time.Millisecond
	}
	outcome := c.finish(v, log, req, result, err)
	if w.hasSlot {
		c.cfg.Metrics.Freed()
	}
	c.cfg.Metrics.Ended(outcome, time.Since(start))
	if details && err != nil {
		span.Retried(c.queue.Delay(req))
	}
	span.End(result, err)
}

// queueState returns the state of the queue for the trace.
func (c *Controller) queueState(item workItem) trace.Queue {
	s := c.queue.Stats()
	return trace.Queue{
		Waited: item.Waited, Priority: item.Priority, Retries: c.queue.NumRequeues(item.Key),
		Ready: s.Ready, Delayed: s.Waiting, Running: s.Running,
	}
}

func (c *Controller) finish(v visit, log *slog.Logger, req reconcile.Request, result reconcile.Result,
	err error) string {
	release, ok := c.lockEngaged(v)
	if !ok {
		return c.abandon(log, req, err)
	}
	defer release()
	if !reconcile.IsConflict(err) {
		c.conflicts.end(req)
	}
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
		log.Error("reconcile failed; not retrying until something changes", "err", err)
		return "terminal"
	case reconcile.IsConflict(err):
		retry()
		c.noteConflict(log, req, err)
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

// reconcile calls the reconciler with its timeout, and turns a panic into an error.
func (c *Controller) reconcile(ctx context.Context, w *worker,
	req reconcile.Request) (result reconcile.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = reconcile.Result{}, &reconcile.PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	if c.cfg.ReconcileTimeout > 0 {
		tooLong := fmt.Errorf("reconcile took longer than %v", c.cfg.ReconcileTimeout)
		bounded, cancel := context.WithTimeoutCause(ctx, c.cfg.ReconcileTimeout, tooLong)
		defer func() {
			if context.Cause(bounded) == tooLong {
				c.cfg.Metrics.TimedOut()
			}
			cancel()
		}()
		ctx = bounded
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
func (noMetrics) TimedOut()                   {}
func (noMetrics) PersistentConflict()         {}
