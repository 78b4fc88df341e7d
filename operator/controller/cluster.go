package controller

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

// Clusters are the engaged clusters besides the manager's own. Requests can name them. The manager
// implements it.
type Clusters interface {
	// Enter starts work in a cluster. It returns false if no cluster of that name is engaged.
	Enter(ctx context.Context, cluster string) (Visit, bool)
}

// Visit is the work on one request in an additional cluster.
type Visit struct {
	// Context is the context for the work; clients find the cluster in it.
	Context context.Context
	// Engaged ends when the cluster is disengaged; context.Cause returns the reason.
	Engaged context.Context
	// Leave ends the work.
	Leave func()
	// Later, if positive, is the delay after which to retry the request, because the cluster is
	// engaged but not ready. In that case, only Later and Engaged are set.
	Later time.Duration
}

// clusterOf returns the cluster of a source; empty for the manager's own, and for sources without a
// method OfCluster.
func clusterOf(s Source) string {
	if source, ok := s.(interface{ OfCluster() string }); ok {
		return source.OfCluster()
	}
	return ""
}

// visit is the work on one request. engaged is nil for clusters that can't be disengaged.
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

// visit starts the work on a request. It drops the request if its cluster is not engaged, and
// delays it if the cluster is not ready.
func (c *Controller) visit(ctx context.Context, req reconcile.Request, causes trace.Causes) (v visit, ok bool) {
	if req.Cluster == "" || c.cfg.Clusters == nil {
		return visit{ctx: ctx}, true
	}
	in, ok := c.cfg.Clusters.Enter(ctx, req.Cluster)
	if !ok {
		c.queue.Forget(req)
		c.cfg.Log.Debug("request dropped: its cluster is not engaged", "cluster", req.Cluster, "namespace",
			req.Namespace, "name", req.Name)
		return visit{}, false
	}
	if in.Later > 0 {
		if release, ok := c.lockEngaged(visit{engaged: in.Engaged}); ok {
			c.queue.AddAfter(req, causes, in.Later)
			release()
		}
		return visit{}, false
	}
	ctx, end := endAfter(in.Context, in.Engaged, c.cfg.GracePeriod)
	return visit{ctx: ctx, engaged: in.Engaged, leave: func() { end(); in.Leave() }}, true
}

// endAfter returns a context that ends with ctx, when end is called, or some time after another
// context has ended, with the cause of that context.
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

// lockEngaged reports whether the cluster of v is still engaged, so that a request may be queued
// again. Until release is called, Disengage waits. It then also drops the requests that were queued
// in the meantime.
func (c *Controller) lockEngaged(v visit) (release func(), ok bool) {
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

// abandon ends a request whose cluster was disengaged during the work.
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
	log.Debug("reconcile failed; not retrying because its cluster was disengaged", "err", err)
	return "disengaged"
}

// Disengage removes the sources and the waiting requests of a disengaged cluster. A running
// Reconcile may continue for the grace period.
func (c *Controller) Disengage(cluster string) {
	if cluster == "" {
		return // the manager's own cluster is never disengaged
	}
	c.sources.disengage(cluster)
	inCluster := func(req reconcile.Request) bool { return req.Cluster == cluster }
	c.dropping.Lock()
	dropped := c.parked.dropAll(inCluster) + c.queue.Drop(inCluster)
	c.dropping.Unlock()
	if r, ok := c.cfg.Reconciler.(interface{ Disengage(cluster string) }); ok {
		r.Disengage(cluster)
	}
	c.cfg.Log.Debug("cluster disengaged", "cluster", cluster, "droppedRequests", dropped)
}
