package cluster

import (
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"

	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/trace"
)

// handler calls a handler of client-go. Calls are serialized, because a handler with its own resync
// period is called from another goroutine.
type handler struct {
	to        toolscache.ResourceEventHandler
	kind      string
	deliver   func(kind string, e controller.Event, call func())
	ownResync bool // resyncs of the cache are for other handlers

	mu sync.Mutex
}

var _ informer.Handler = (*handler)(nil)

func (h *handler) call(e controller.Event, do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.deliver != nil {
		h.deliver(h.kind, e, do)
		return
	}
	do()
}

func (h *handler) OnAdd(obj client.Object, initial bool) {
	e := controller.Event{Type: trace.Add, Object: obj}
	if initial {
		e.Type = trace.Sync
	}
	h.call(e, func() { h.to.OnAdd(obj, initial) })
}

func (h *handler) OnUpdate(old, obj client.Object) {
	e := controller.Event{Type: trace.Update, Old: old, Object: obj}
	if old == obj {
		if h.ownResync {
			return
		}
		e = controller.Event{Type: trace.Resync, Object: obj}
	}
	h.call(e, func() { h.to.OnUpdate(old, obj) })
}

func (h *handler) OnDelete(obj client.Object, stale bool) {
	h.call(controller.Event{Type: trace.Delete, Object: obj}, func() {
		if stale {
			key, _ := toolscache.MetaNamespaceKeyFunc(obj) // obj has metadata
			h.to.OnDelete(toolscache.DeletedFinalStateUnknown{Key: key, Obj: obj})
			return
		}
		h.to.OnDelete(obj)
	})
}

// registration is the subscription of a handler to all parts of an informer.
type registration struct {
	informer *Informer
	parts    []informer.Registration
	ended    chan struct{}
	end      func() // closes ended
}

func (r *registration) remove() {
	r.end()
	for _, part := range r.parts {
		part.Remove()
	}
}

// HasSynced reports whether the handler has received all objects that existed when it was added.
func (r *registration) HasSynced() bool {
	for _, part := range r.parts {
		if !isClosed(part.Synced()) {
			return false
		}
	}
	return true
}

// HasSyncedChecker completes when HasSynced is true.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker {
	var all []<-chan struct{}
	for _, part := range r.parts {
		all = append(all, part.Synced())
	}
	return r.informer.newChecker("handler of "+r.informer.kind.String(), all)
}

// resync calls the handler for all objects, periodically, until it is removed.
func (r *registration) resync(h *handler, period time.Duration) {
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
		case <-r.ended:
			return
		case <-r.informer.stopped:
			return
		}
		for _, part := range r.informer.parts {
			for _, obj := range part.List("") {
				h.call(controller.Event{Type: trace.Resync, Object: obj}, func() { h.to.OnUpdate(obj, obj) })
			}
		}
	}
}

// checker is a toolscache.DoneChecker.
type checker struct {
	name string
	done <-chan struct{}
}

func (c checker) Name() string          { return c.name }
func (c checker) Done() <-chan struct{} { return c.done }

// newChecker returns a checker that is done when all channels are closed.
func (i *Informer) newChecker(name string, all []<-chan struct{}) checker {
	if len(all) == 1 {
		return checker{name, all[0]}
	}
	done := make(chan struct{})
	go func() {
		for _, each := range all {
			select {
			case <-each:
			case <-i.stopped:
				return
			}
		}
		close(done)
	}()
	return checker{name, done}
}
