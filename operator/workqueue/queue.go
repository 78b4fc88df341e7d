package workqueue

import (
	"context"
	"math"
	"sync"
	"time"
)

// Config describes a Queue. The zero value is useful.
type Config[T comparable, P any] struct {
	// Merge combines the payload of a key that waits with that of a further add. It must bound what it returns, and must not call
	// the queue. Nil keeps the newer one.
	Merge func(old, new P) P
	// Limiter says how long AddRateLimited waits. Nil is DefaultLimiter.
	Limiter Limiter[T]
	// Aging is the time in which a waiting key gains one level of priority, so that a key of priority p is overtaken by newer keys
	// of priority p+n for n times Aging at most. Zero: priorities are absolute.
	Aging time.Duration
	// Metrics, if not nil, is told what happens.
	Metrics Metrics
}

// Item is a key that was handed out to a worker, and why.
type Item[T comparable, P any] struct {
	Key      T
	Payload  P
	Priority int

	entry *entry[T, P]
	turn  uint64
}

// Options of AddWith.
type Options struct {
	// Priority: higher goes first; 0 is that of Add. A key that is there already keeps the higher one.
	Priority int
	// After is the least time to wait.
	After time.Duration
	// RateLimited waits for as long as the queue's limiter says, if that is longer than After.
	RateLimited bool
}

// Queue is a queue of distinct keys; see the package documentation.
type Queue[T comparable, P any] struct {
	merge   func(old, new P) P
	limiter Limiter[T]
	aging   int64
	metrics Metrics
	stamps  bool // times are taken only for a queue that uses them
	start   time.Time

	mu           sync.Mutex
	entries      map[T]*entry[T, P]
	levels       []*list[T, P] // those that are not empty, highest priority first
	ready        int           // entries in levels
	running      list[T, P]
	runningCount int
	waiting      waitingHeap[T, P]
	timer        *time.Timer
	timerDue     int64 // when the timer fires; meaningful while timerSet
	timerSet     bool

	// Of the workers that wait in Get, at most one at a time is on its way to the lock (waking). It wakes the next one if it
	// finds more than it takes, so a burst of adds costs one wake-up and not one each.
	sleepers *sleeper
	waking   bool

	shut    bool
	drained chan struct{} // closed when a draining queue is empty, or the drain is given up

	resting      int          // entries in the map that nothing wants
	spares       *entry[T, P] // that are not in the map
	spareLevel   *list[T, P]
	spareSleeper *sleeper
}

// New makes a queue.
func New[T comparable, P any](cfg Config[T, P]) *Queue[T, P] {
	if cfg.Limiter == nil {
		cfg.Limiter = DefaultLimiter[T]()
	}
	return &Queue[T, P]{
		merge:   cfg.Merge,
		limiter: cfg.Limiter,
		aging:   int64(cfg.Aging),
		metrics: cfg.Metrics,
		stamps:  cfg.Aging > 0 || cfg.Metrics != nil,
		start:   time.Now(),
		entries: make(map[T]*entry[T, P]),
	}
}

// Add queues a key now. A key that was added for later is queued now instead.
func (q *Queue[T, P]) Add(key T, payload P) { q.add(key, payload, 0, 0) }

// AddAfter queues a key when d has passed. It is no more than Add for a d of zero or less, and does nothing but merge the payload
// for a key that is due sooner anyway.
func (q *Queue[T, P]) AddAfter(key T, payload P, d time.Duration) { q.add(key, payload, 0, d) }

// AddRateLimited queues a key when its limiter lets it. Forget ends the limiter's account of the key.
func (q *Queue[T, P]) AddRateLimited(key T, payload P) {
	q.AddWith(key, payload, Options{RateLimited: true})
}

// AddWith queues a key as the options say.
func (q *Queue[T, P]) AddWith(key T, payload P, opts Options) {
	if opts.RateLimited {
		opts.After = max(opts.After, q.limiter.When(key))
		if q.metrics != nil {
			q.mu.Lock()
			q.metrics.Retried()
			q.mu.Unlock()
		}
	}
	q.add(key, payload, opts.Priority, opts.After)
}

// Forget tells the limiter that the key succeeded (or is given up): its next backoff begins anew. It takes nothing from the queue.
func (q *Queue[T, P]) Forget(key T) { q.limiter.Forget(key) }

// NumRequeues is how often the key was added rate-limited since it was forgotten.
func (q *Queue[T, P]) NumRequeues(key T) int { return q.limiter.NumRequeues(key) }

// Len is the number of keys that are ready to be handed out.
func (q *Queue[T, P]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready
}

func (q *Queue[T, P]) add(key T, payload P, priority int, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut {
		return
	}
	e := q.entry(key)
	if e.state == idle {
		e.payload, e.priority = payload, priority
		if q.metrics != nil {
			q.metrics.Added()
		}
	} else {
		if q.merge != nil {
			payload = q.merge(e.payload, payload)
		}
		e.payload = payload
		q.raise(e, priority)
	}
	if after > 0 && (e.state == idle || e.state == waiting) {
		now := q.now()
		q.postpone(e, now+min(int64(after), math.MaxInt64-now)) // "never" is a time, too
	} else {
		q.enqueue(e)
	}
}

// enqueue makes an entry ready, or lets it be made so by Done when it is running.
func (q *Queue[T, P]) enqueue(e *entry[T, P]) {
	switch e.state {
	case queued, held:
		return
	case waiting:
		q.waiting.remove(e)
		q.arm()
	}
	if e.running {
		e.state = held
		return
	}
	e.state = queued
	if q.stamps {
		e.stamp = q.now()
	}
	q.level(e.priority).push(e)
	q.ready++
	if q.metrics != nil {
		q.metrics.Depth(q.ready)
	}
	q.wake()
}

// Get hands out the next key, waiting for one if there is none. The key must be given back with Done. The error is that of ctx,
// which is looked at first, or ErrShutDown.
func (q *Queue[T, P]) Get(ctx context.Context) (Item[T, P], error) {
	if err := ctx.Err(); err != nil {
		return Item[T, P]{}, err
	}
	q.mu.Lock()
	for q.ready == 0 {
		if q.shut {
			q.mu.Unlock()
			return Item[T, P]{}, ErrShutDown
		}
		if err := q.sleep(ctx); err != nil {
			q.mu.Unlock()
			return Item[T, P]{}, err
		}
	}
	e := q.next()
	q.unlink(e)
	e.turn++
	item := Item[T, P]{Key: e.key, Payload: e.payload, Priority: e.priority, entry: e, turn: e.turn}
	var none P
	e.state, e.running, e.payload = idle, true, none
	q.running.push(e)
	q.runningCount++
	if q.stamps {
		now := q.now()
		if q.metrics != nil {
			q.metrics.Got(time.Duration(now - e.stamp))
			q.metrics.Depth(q.ready)
		}
		e.stamp = now
	}
	if q.ready > 0 {
		q.wake()
	}
	q.mu.Unlock()
	return item, nil
}

// Done ends the work on a key that Get handed out; the key is queued again if it was added meanwhile. It must be called once for
// each Get, with what that returned.
func (q *Queue[T, P]) Done(item Item[T, P]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := item.entry
	if e == nil || !e.running || e.turn != item.turn {
		return // done already
	}
	q.running.remove(e)
	q.runningCount--
	e.running = false
	if q.metrics != nil {
		q.metrics.Finished(time.Duration(q.now() - e.stamp))
	}
	switch e.state {
	case held:
		e.state = idle
		q.enqueue(e)
	case idle:
		q.rest(e)
	}
	q.checkDrained()
}

// ShutDown ends the queue: further adds are ignored, what waits for later is dropped, and Get returns ErrShutDown once it has handed
// out what was ready. It ends a drain that is under way, too.
func (q *Queue[T, P]) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shutDown()
	if q.drained != nil && !closed(q.drained) {
		close(q.drained)
	}
}

// ShutDownWithDrain is ShutDown, and waits until the workers have given back all that was ready or running; or until ctx ends, whose
// error it then returns; or until ShutDown is called.
func (q *Queue[T, P]) ShutDownWithDrain(ctx context.Context) error {
	q.mu.Lock()
	q.shutDown()
	if q.drained == nil {
		q.drained = make(chan struct{})
		q.checkDrained()
	}
	drained := q.drained
	q.mu.Unlock()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ShuttingDown says whether the queue was shut down.
func (q *Queue[T, P]) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.shut
}

func (q *Queue[T, P]) shutDown() {
	if q.shut {
		return
	}
	q.shut = true
	if q.timer != nil {
		q.timer.Stop()
	}
	for _, e := range q.waiting {
		e.state = idle
	}
	q.waiting = nil
	for s := q.sleepers; s != nil; s = q.sleepers {
		q.sleepers = s.next
		s.woken <- struct{}{}
	}
}

func (q *Queue[T, P]) checkDrained() {
	if q.drained != nil && q.ready == 0 && q.runningCount == 0 && !closed(q.drained) {
		close(q.drained)
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// now is the time since the queue was made, which is cheaper to keep and compare than a time.Time.
func (q *Queue[T, P]) now() int64 { return int64(time.Since(q.start)) }
