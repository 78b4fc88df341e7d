package controller

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
	"kelson.dev/operator/workqueue"
)

// Source adds requests to a queue.
type Source interface {
	// Start starts to feed q until ctx ends, and returns immediately. The channel is closed when
	// all objects that existed at the start are in q.
	Start(ctx context.Context, q Queue) (synced <-chan struct{}, err error)
}

// SourceFunc adapts a function to a Source.
type SourceFunc func(ctx context.Context, q Queue) (<-chan struct{}, error)

// Start calls f.
func (f SourceFunc) Start(ctx context.Context, q Queue) (<-chan struct{}, error) { return f(ctx, q) }

// initialPriority is the priority of objects that existed at the start, so that new events come
// first.
const initialPriority = -100

// Kind is a Source of the events of one kind.
type Kind struct {
	// Informers has the informer of the kind; required. The reconciler must read the kind from it
	// or from the server: the controller drops events that a reconcile has already read. A
	// reconciler that reads another copy, such as a client-go lister, can miss a change.
	Informers informer.Informers
	// Cluster is the name of the informers' cluster. Requests get it unless the handler sets
	// another one.
	Cluster string
	// Object determines the kind: a typed, unstructured or metadata-only object; required.
	Object client.Object
	// Handler names the objects to reconcile; EnqueueObject if nil.
	Handler EventHandler
	// Stateful means that Handler changes state that the reconciler reads, such as expectations.
	// Otherwise, a reconcile that started before the call of Handler, and has read the object of
	// the event, counts as the reconcile of the event.
	Stateful bool
	// Predicates must all accept an event.
	Predicates []Predicate
	// Priority, if not nil, is the priority of the requests of an event: higher ones are reconciled
	// first. The default is 0, and -100 for objects that existed at the start or are repeated by a
	// resync. A request waits at most one second longer per 100 that its priority is lower.
	Priority func(Event) int
	// Resync, if positive, produces an event for each object at that interval.
	Resync time.Duration
}

// Start subscribes to the informer.
func (k *Kind) Start(ctx context.Context, q Queue) (<-chan struct{}, error) {
	kind, err := client.KindOf(k.Object, k.Informers.Client().Scheme())
	if err != nil {
		return nil, err
	}
	inf, err := k.Informers.For(k.Object)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", kind.Kind, err)
	}
	h := k.handler(q, kind.Kind)
	h.tracer = trace.FromContext(ctx)
	if !k.Stateful {
		h.lastStarts = lastStartsFrom(ctx)
	}
	reg, err := inf.AddHandler(h)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", kind.Kind, err)
	}
	context.AfterFunc(ctx, reg.Remove)
	if k.Resync > 0 {
		go h.resync(ctx, inf, k.Resync)
	}
	return reg.Synced(), nil
}

// OfCluster returns the cluster of the source's objects. The source ends when that cluster is
// disengaged.
func (k *Kind) OfCluster() string { return k.Cluster }

// Replay produces an event for each object, as at the start.
func (k *Kind) Replay(q Queue) error {
	kind, err := client.KindOf(k.Object, k.Informers.Client().Scheme())
	if err != nil {
		return err
	}
	inf, err := k.Informers.For(k.Object)
	if err != nil {
		return err
	}
	h := k.handler(q, kind.Kind)
	for _, obj := range inf.List("") {
		h.handle(Event{Type: trace.Sync, Object: obj})
	}
	return nil
}

// Unsynced returns the reason why the source is not synced, if known.
func (k *Kind) Unsynced() string {
	kind, err := client.KindOf(k.Object, k.Informers.Client().Scheme())
	if err != nil {
		return err.Error()
	}
	var why []string
	for _, s := range k.Informers.Statuses() {
		if s.Kind == kind && s.Type == reflect.TypeOf(k.Object).Elem() && !s.Synced {
			why = append(why, s.String())
		}
	}
	return strings.Join(why, "; ")
}

func (k *Kind) handler(q Queue, kind string) *kindHandler {
	h := &kindHandler{queue: q, kind: kind, cluster: k.Cluster, handler: k.Handler, wanted: And(k.Predicates...),
		priority: k.Priority}
	if h.handler == nil {
		h.handler = EnqueueObject
	}
	return h
}

// kindHandler is the informer.Handler of a Kind.
type kindHandler struct {
	queue      Queue
	kind       string
	cluster    string
	tracer     *trace.Tracer // may be nil
	handler    EventHandler
	wanted     Predicate
	priority   func(Event) int // may be nil
	lastStarts *lastStarts     // may be nil
}

func (h *kindHandler) handle(e Event) { h.handleSince(e, time.Time{}) }

// handleSince handles an event. Reconciles that started after visible have already read the change;
// visible is zero if that time is not known.
func (h *kindHandler) handleSince(e Event, visible time.Time) {
	if !h.wanted(e) {
		return
	}
	causes := trace.Because(h.cause(e))
	priority := 0
	switch {
	case h.priority != nil:
		priority = h.priority(e)
	case e.Type == trace.Sync || e.Type == trace.Resync:
		priority = initialPriority
	}
	h.handler(e, func(r reconcile.Request) {
		if r.Cluster == "" {
			r.Cluster = h.cluster
		}
		if !visible.IsZero() && h.lastStarts.after(r, visible) {
			return
		}
		h.queue.AddWith(r, causes, workqueue.Options{Priority: priority})
	})
}

func (h *kindHandler) OnAdd(obj client.Object, initial bool) {
	e := Event{Type: trace.Add, Object: obj}
	if initial {
		e.Type = trace.Sync
	}
	h.handle(e)
}

func (h *kindHandler) OnUpdate(old, obj client.Object) {
	h.handle(Event{Type: trace.Update, Object: obj, Old: old})
}

// OnKnown skips the event if a reconcile has started since reads return the change: that reconcile
// has read it.
func (h *kindHandler) OnKnown(old, obj client.Object, since time.Time) {
	e := Event{Type: trace.Add, Object: obj}
	if old != nil {
		e.Type, e.Old = trace.Update, old
	}
	h.handleSince(e, since)
}

func (h *kindHandler) OnDelete(obj client.Object, _ bool) {
	h.handle(Event{Type: trace.Delete, Object: obj})
}

func (h *kindHandler) resync(ctx context.Context, inf informer.Informer, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			for _, obj := range inf.List("") {
				h.handle(Event{Type: trace.Resync, Object: obj})
			}
		}
	}
}

// Channel is a Source of requests from outside of the API server: each value received is a request.
type Channel <-chan reconcile.Request

// Start receives until ctx ends or the channel is closed.
func (c Channel) Start(ctx context.Context, q Queue) (<-chan struct{}, error) {
	synced := make(chan struct{})
	close(synced)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case r, ok := <-c:
				if !ok {
					return
				}
				q.Add(r, trace.Because(trace.Cause{Event: trace.Other}))
			}
		}
	}()
	return synced, nil
}
