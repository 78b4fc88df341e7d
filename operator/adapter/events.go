package adapter

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	crevent "sigs.k8s.io/controller-runtime/pkg/event"
	crhandler "sigs.k8s.io/controller-runtime/pkg/handler"
	crpredicate "sigs.k8s.io/controller-runtime/pkg/predicate"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	crsource "sigs.k8s.io/controller-runtime/pkg/source"

	"kelson.dev/operator/controller"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
	"kelson.dev/operator/workqueue"
)

// Predicate adapts a predicate of controller-runtime.
func Predicate(p crpredicate.Predicate) controller.Predicate {
	return func(e controller.Event) bool {
		switch {
		case e.Type == trace.Delete:
			return p.Delete(crevent.DeleteEvent{Object: e.Object})
		case e.Old != nil:
			return p.Update(crevent.UpdateEvent{ObjectOld: e.Old, ObjectNew: e.Object})
		case e.Type == trace.Resync:
			return p.Update(crevent.UpdateEvent{ObjectOld: e.Object, ObjectNew: e.Object})
		case e.Type == trace.Other:
			return p.Generic(crevent.GenericEvent{Object: e.Object})
		}
		return p.Create(crevent.CreateEvent{Object: e.Object, IsInInitialList: e.Type == trace.Sync})
	}
}

// handled is a Kind whose events go to a controller-runtime handler.
type handled struct {
	*controller.Kind
	handler crhandler.EventHandler
}

func (h *handled) Start(ctx context.Context, q controller.Queue) (<-chan struct{}, error) {
	h.Handler = func(e controller.Event, enqueue func(reconcile.Request)) {
		to := &queue{q: q, cluster: h.Cluster, enqueue: enqueue}
		switch {
		case e.Type == trace.Delete:
			h.handler.Delete(ctx, crevent.DeleteEvent{Object: e.Object}, to)
		case e.Old != nil:
			h.handler.Update(ctx, crevent.UpdateEvent{ObjectOld: e.Old, ObjectNew: e.Object}, to)
		case e.Type == trace.Resync:
			h.handler.Update(ctx, crevent.UpdateEvent{ObjectOld: e.Object, ObjectNew: e.Object}, to)
		default:
			h.handler.Create(ctx, crevent.CreateEvent{Object: e.Object, IsInInitialList: e.Type == trace.Sync}, to)
		}
	}
	return h.Kind.Start(reconcile.WithCluster(ctx, h.Cluster), q)
}

// rawSource is a source of controller-runtime.
type rawSource struct {
	upstream crsource.Source
	log      *slog.Logger
}

func (s rawSource) Start(ctx context.Context, q controller.Queue) (<-chan struct{}, error) {
	to := &queue{q: q, enqueue: func(r reconcile.Request) { q.Add(r, controller.Why("source")) }}
	if err := s.upstream.Start(ctx, to); err != nil {
		return nil, err
	}
	synced := make(chan struct{})
	syncing, ok := s.upstream.(crsource.SyncingSource)
	if !ok {
		close(synced)
		return synced, nil
	}
	go func() {
		if err := syncing.WaitForSync(ctx); err != nil {
			s.log.Error("source is not synced", "source", fmt.Sprint(s.upstream), "err", err)
			return // the controller reports that it waited too long
		}
		close(synced)
	}()
	return synced, nil
}

// queue is the queue that a controller-runtime handler adds to.
type queue struct {
	q       controller.Queue
	cluster string
	enqueue func(reconcile.Request) // with the event as its cause
}

func (q *queue) request(r crreconcile.Request) reconcile.Request {
	return reconcile.Request{NamespacedName: r.NamespacedName, Cluster: q.cluster}
}

func (q *queue) Add(r crreconcile.Request) { q.enqueue(q.request(r)) }

func (q *queue) AddAfter(r crreconcile.Request, d time.Duration) {
	q.q.AddAfter(q.request(r), controller.Why("handler"), d)
}

func (q *queue) AddRateLimited(r crreconcile.Request) {
	q.q.AddWith(q.request(r), controller.Why("handler"), workqueue.Options{RateLimited: true})
}

func (q *queue) Forget(r crreconcile.Request)          { q.q.Forget(q.request(r)) }
func (q *queue) NumRequeues(r crreconcile.Request) int { return q.q.NumRequeues(q.request(r)) }
func (q *queue) Len() int                              { return q.q.Len() }
func (q *queue) ShuttingDown() bool                    { return q.q.ShuttingDown() }

// Handlers must not call the remaining methods, which are for workers.
func (q *queue) Get() (crreconcile.Request, bool) { panic(errNoGet) }
func (q *queue) Done(crreconcile.Request)         { panic(errNoGet) }
func (q *queue) ShutDown()                        { panic(errNoGet) }
func (q *queue) ShutDownWithDrain()               { panic(errNoGet) }
