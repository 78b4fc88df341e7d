package controller

import (
	"context"
	"sync"
	"sync/atomic"
)

// workerPool has the workers of a controller and a number of slots. Only a worker with a slot takes
// requests from the queue and calls the reconciler. A worker that waits for the last write of a
// reconcile passes its slot to another worker, and waits for a slot afterwards.
type workerPool struct {
	step    func(*worker) bool // processes one request; false means that there will be no more
	workers sync.WaitGroup
	free    chan struct{} // passes a slot to a worker that has none
	spare   atomic.Int64  // how many more workers than slots may still be started
}

// sparePerSlot bounds the workers that wait for a last write, per slot.
const sparePerSlot = 2

// newWorkerPool returns a pool with the given number of slots. With a single slot, each object is
// finished before the next one starts: some reconcilers find free resources in the statuses of
// other objects and rely on that.
func newWorkerPool(slots int, step func(*worker) bool) *workerPool {
	c := &workerPool{step: step, free: make(chan struct{})}
	if slots > 1 {
		c.spare.Store(int64(sparePerSlot * slots))
	}
	return c
}

// start adds a worker with a new slot. The worker ends when the queue ends, or when ctx ends while
// it has no slot.
func (c *workerPool) start(ctx context.Context) {
	c.workers.Go(func() {
		for w := (&worker{pool: c, ctx: ctx, hasSlot: true}); w.slot() && c.step(w); {
		}
	})
}

// worker is one goroutine.
type worker struct {
	pool    *workerPool
	ctx     context.Context
	hasSlot bool
}

// slot waits for a slot. It returns false if ctx has ended.
func (w *worker) slot() bool {
	if w.hasSlot {
		return true
	}
	select {
	case <-w.pool.free:
		w.hasSlot = true
	case <-w.ctx.Done():
	}
	return w.hasSlot
}

// yield passes the slot on, and reports whether another worker took it.
func (w *worker) yield() bool {
	if !w.hasSlot {
		return false
	}
	select {
	case w.pool.free <- struct{}{}:
		w.hasSlot = false
		return true
	default:
	}
	if w.pool.spare.Add(-1) < 0 {
		w.pool.spare.Add(1)
		return false
	}
	w.hasSlot = false
	w.pool.start(w.ctx)
	return true
}
