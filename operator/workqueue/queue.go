package workqueue

import (
	"context"
	"math"
	"sync"
	"time"
)

// Config configures a Queue. The zero value is useful.
type Config[T comparable, P any] struct {
	// Merge combines the payload of a waiting key with that of another add. The result must be
	// bounded. Merge must not call the queue. If nil, the newer payload is kept.
	Merge func(old, new P) P
	// Limiter determines the delay of AddRateLimited; DefaultLimiter if nil.
	Limiter Limiter[T]
	// Aging is the time after which a waiting key gains one level of priority: newer keys of
	// priority p+n can overtake a key of priority p for at most n times Aging. If zero, priorities
	// are absolute.
	Aging time.Duration
	// Metrics, if not nil, receives events of the queue.
	Metrics Metrics
}

// Item is a key that Get returned, with its payload.
type Item[T comparable, P any] struct {
	Key      T
	Payload  P
	Priority int
	// Waited is the time since the key was ready. It is recorded only for queues with Metrics or
	// Aging.
	Waited time.Duration

	entry *entry[T, P]
	turn  uint64
}

// Options for AddWith.
type Options struct {
	// Priority: keys with a higher priority come first; Add uses 0. A key that is already queued
	// keeps the higher priority.
	Priority int
	// After is the minimum delay.
	After time.Duration
	// RateLimited applies the delay of the queue's limiter, if that is longer than After.
	RateLimited bool
}

// Queue is a queue of distinct keys; see the package documentation.
type Queue[T comparable, P any] struct {
	merge   func(old, new P) P
	limiter Limiter[T]
	aging   int64
	metrics Metrics
	stamps  bool // times are recorded only if aging or metrics need them
	start   time.Time

	mu           sync.Mutex
	entries      map[T]*entry[T, P]
	levels       []*list[T, P] // nonempty levels, highest priority first
	ready        int           // entries in levels
	running      list[T, P]
	runningCount int
	waiting      waitingHeap[T, P]
	timer        *time.Timer
	timerDue     int64 // when the timer fires; valid while timerSet
	timerSet     bool

	// Of the workers that wait in Get, at most one at a time is being woken (waking). It wakes the
	// next one if it finds more than one key, so that a burst of adds costs one wake-up instead of
	// one each.
	sleepers  *sleeper
	waking    bool
	startable int    // number of goroutines that Start may still start
	startOne  func() // starts one of them; see Start

	shut    bool
	drained chan struct{} // closed when a draining queue is empty, or the drain is aborted

	resting      int          // entries in the map with no pending work
	spares       *entry[T, P] // entries for reuse, not in the map
	spareLevel   *list[T, P]
	spareSleeper *sleeper
}

// New returns a queue.
func New[T comparable, P any](cfg Config[T, P]) *Queue[T, P] {
	if cfg.Limiter == nil {
		cfg.Limiter = DefaultLimiter[T]()
	}
	return &Queue[T, P]{
		merge:   cfg.Merge,
		limiter: cfg.Limiter,
		aging:   max(0, int64(cfg.Aging)),
		metrics: cfg.Metrics,
		stamps:  cfg.Aging > 0 || cfg.Metrics != nil,
		start:   time.Now(),
		entries: make(map[T]*entry[T, P]),
	}
}

// Add queues a key now. A key that was added with a delay is queued now instead.
func (q *Queue[T, P]) Add(key T, payload P) { q.add(key, payload, 0, 0) }

// AddAfter queues a key after d. If d is zero or negative, it is Add. If the key is due earlier, it
// only merges the payload.
func (q *Queue[T, P]) AddAfter(key T, payload P, d time.Duration) { q.add(key, payload, 0, d) }

// AddRateLimited queues a key after the delay of the limiter. Forget resets the limiter for the
// key.
func (q *Queue[T, P]) AddRateLimited(key T, payload P) {
	q.AddWith(key, payload, Options{RateLimited: true})
}

// AddWith queues a key according to opts.
func (q *Queue[T, P]) AddWith(key T, payload P, opts Options) {
	if opts.RateLimited {
		opts.After = max(opts.After, q.limiter.When(key))
	}
	q.add(key, payload, opts.Priority, opts.After)
}

// Forget resets the backoff of a key, because it succeeded or was given up. It does not remove the
// key from the queue.
func (q *Queue[T, P]) Forget(key T) { q.limiter.Forget(key) }

// NumRequeues returns how often the key was added rate-limited since the last Forget.
func (q *Queue[T, P]) NumRequeues(key T) int { return q.limiter.NumRequeues(key) }

// Delay returns how long a key that was added with a delay still waits; zero for other keys.
func (q *Queue[T, P]) Delay(key T) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[key]; e != nil && e.state == waiting {
		return max(0, time.Duration(e.due-q.now()))
	}
	return 0
}

// Len returns the number of keys that Get can return now.
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
	if after > 0 && q.metrics != nil {
		q.metrics.Retried()
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
		// avoid overflow for very long delays
		q.postpone(e, now+min(int64(after), math.MaxInt64-now))
	} else {
		q.enqueue(e)
	}
}

// enqueue makes an entry ready or, if it is running, marks it so that Done does.
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
	l := q.level(e.priority)
	l.push(e)
	q.ready++
	if q.metrics != nil {
		q.metrics.Depth(l.priority, l.size)
	}
	q.wake()
}

// Get returns the next key, and waits if there is none. The caller must call Done with the item.
// The error is that of ctx, which is checked first, or ErrShutDown.
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
	item := q.pop()
	q.mu.Unlock()
	return item, nil
}

// pop takes the next key. At least one key must be ready.
func (q *Queue[T, P]) pop() Item[T, P] {
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
		item.Waited = time.Duration(now - e.stamp)
		if q.metrics != nil {
			q.metrics.Got(item.Waited)
		}
		e.stamp = now
	}
	if q.ready > 0 {
		q.wake()
	}
	return item
}

// Done ends the work on an item from Get. The key is queued again if it was added in the meantime.
// Done must be called once for each Get.
func (q *Queue[T, P]) Done(item Item[T, P]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := item.entry
	if e == nil || !e.running || e.turn != item.turn {
		return // Done was already called
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
		q.addResting(e)
	}
	q.checkDrained()
}

// ShutDown ends the queue: it ignores further adds and drops delayed keys, and Get returns
// ErrShutDown after the ready keys. ShutDown also ends a drain in progress.
func (q *Queue[T, P]) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shutDown()
	if q.drained != nil && !closed(q.drained) {
		close(q.drained)
	}
}

// ShutDownWithDrain is ShutDown, and waits until Done was called for all ready and running keys, or
// ShutDown is called. If ctx ends first, it returns the error of ctx.
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

// ShuttingDown reports whether the queue was shut down.
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

// now returns the time since the queue was created, which is cheaper to store and compare than a
// time.Time.
func (q *Queue[T, P]) now() int64 { return int64(time.Since(q.start)) }
