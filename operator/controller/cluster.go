package controller

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

// Clusters are those, besides the manager's own, that are engaged now: requests may name them. A manager has them.
type Clusters interface {
	// Enter begins work in a cluster. False says that none of that name is engaged.
	Enter(ctx context.Context, cluster string) (Visit, bool)
}

// Visit is work on one request in a further cluster.
type Visit struct {
	// Context is that of the work: clients find the cluster in it.
	Context context.Context
	// Engaged ends when the cluster is disengaged, with a cause that says so.
	Engaged context.Context
	// Leave ends the work.
	Leave func()
	// Later, if positive, is after what time the request is to be tried again: the cluster is there, but not ready for work. Then only Engaged is
	// set beside it.
	Later time.Duration
}

// clusterOf is the cluster that a source tells of; empty for the manager's own, and for sources that do not say.
func clusterOf(s Source) string {
	if of, ok := s.(interface{ OfCluster() string }); ok {
		return of.OfCluster()
	}
	return ""
}

// visit is the work on one request. Engaged is nil where clusters do not come and go.
type visit struct {
	ctx     context.Context
	engaged context.Context
	leave   func()
}

func (v visit) end() {
	if v.leave != nil {
		v.leave()
	}
}

// visit begins the work on a request. It drops it if its cluster is not there, and puts it off if that is not ready.
func (c *Controller) visit(ctx context.Context, req reconcile.Request, causes trace.Causes) (v visit, there bool) {
	if req.Cluster == "" || c.cfg.Clusters == nil {
		return visit{ctx: ctx}, true
	}
	in, there := c.cfg.Clusters.Enter(ctx, req.Cluster)
	if !there {
		c.queue.Forget(req)
		c.cfg.Log.Debug("a request was dropped: its cluster is not engaged", "cluster", req.Cluster, "namespace", req.Namespace, "name", req.Name)
		return visit{}, false
	}
	if in.Later > 0 {
		if release, ok := c.keep(visit{engaged: in.Engaged}); ok {
			c.queue.AddAfter(req, causes, in.Later)
			release()
		}
		return visit{}, false
	}
	ctx, end := endAfter(in.Context, in.Engaged, c.cfg.GracePeriod)
	return visit{ctx: ctx, engaged: in.Engaged, leave: func() { end(); in.Leave() }}, true
}

// endAfter is a context that ends with ctx, or some time after another has ended and by its cause; or when end is called.
func endAfter(ctx, another context.Context, by time.Duration) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(another, func() {
		timer := time.NewTimer(by)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(context.Cause(another))
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); cancel(nil) }
}

// keep says whether what is to be done about a request later may be noted: not for a cluster that was disengaged. Until release is called,
// Disengage drops nothing: so it drops what was noted, or nothing is noted any longer.
func (c *Controller) keep(v visit) (release func(), ok bool) {
	if v.engaged == nil {
		return func() {}, true
	}
	c.dropping.RLock()
	if v.engaged.Err() != nil {
		c.dropping.RUnlock()
		return nil, false
	}
	return c.dropping.RUnlock, true
}

// abandon ends a request whose cluster was disengaged while it was worked on.
func (c *Controller) abandon(log *slog.Logger, req reconcile.Request, err error) (outcome string) {
	c.queue.Forget(req)
	if err == nil {
		return "success"
	}
	if p := (*reconcile.PanicError)(nil); errors.As(err, &p) {
		c.cfg.Metrics.Panicked()
		log.Error("reconcile failed", "err", err, "stack", string(p.Stack))
		return "error"
	}
	log.Debug("reconcile failed and is not tried again: its cluster was disengaged", "err", err)
	return "disengaged"
}

// Disengage ends what the controller has of a cluster that was disengaged: the sources which tell of it, and the requests that wait.
// A Reconcile that runs may go on for the grace period; nothing follows it.
func (c *Controller) Disengage(cluster string) {
	if cluster == "" {
		return // the manager's own stays
	}
	c.sources.disengage(cluster)
	of := func(req reconcile.Request) bool { return req.Cluster == cluster }
	c.dropping.Lock()
	dropped := c.parked.dropAll(of) + c.queue.Drop(of)
	c.dropping.Unlock()
	if r, ok := c.cfg.Reconciler.(interface{ Disengage(cluster string) }); ok {
		r.Disengage(cluster)
	}
	c.cfg.Log.Debug("a cluster was disengaged", "cluster", cluster, "droppedRequests", dropped)
}
