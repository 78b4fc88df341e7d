package controller

import (
	"context"
	"sync"
	"sync/atomic"
)

// crew are the workers of a controller, and places for some of them: only who has a place takes requests from the queue and calls the reconciler. A
// worker that waits for the last write of a reconcile gives its place to another one and asks for a place when it is done with that.
type crew struct {
	step    func(*worker) bool // takes a request and works on it; false says that there will be none
	workers sync.WaitGroup
	free    chan struct{} // hands a place to a worker that has none
	spare   atomic.Int64  // how many more workers than places may be started yet
}

// sparePerPlace is how many workers there are at most, for each place, that wait for a last write.
const sparePerPlace = 2

// newCrew is a crew of so many places. With one alone, one object is done with before the next is begun: reconcilers that find in other objects'
// statuses what is still free count on that.
func newCrew(places int, step func(*worker) bool) *crew {
	c := &crew{step: step, free: make(chan struct{})}
	if places > 1 {
		c.spare.Store(int64(sparePerPlace * places))
	}
	return c
}

// start has one more worker, at a place that is nobody's, until there will be no requests or ctx ends while it has no place.
func (c *crew) start(ctx context.Context) {
	c.workers.Go(func() {
		for w := (&worker{crew: c, ctx: ctx, placed: true}); w.place() && c.step(w); {
		}
	})
}

// worker is one goroutine.
type worker struct {
	crew   *crew
	ctx    context.Context
	placed bool
}

// place waits for a place. False says that there will be none.
func (w *worker) place() bool {
	if w.placed {
		return true
	}
	select {
	case <-w.crew.free:
		w.placed = true
	case <-w.ctx.Done():
	}
	return w.placed
}

// yield gives the place away, and says whether anybody could take it.
func (w *worker) yield() bool {
	if !w.placed {
		return false
	}
	select {
	case w.crew.free <- struct{}{}:
		w.placed = false
		return true
	default:
	}
	if w.crew.spare.Add(-1) < 0 {
		w.crew.spare.Add(1)
		return false
	}
	w.placed = false
	w.crew.start(w.ctx)
	return true
}
