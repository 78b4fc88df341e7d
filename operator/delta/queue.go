package delta

import (
	"context"
	"sync"
)

// Type is the type of a change.
type Type string

const (
	Added    Type = "Added"
	Updated  Type = "Updated"
	Deleted  Type = "Deleted"
	Replaced Type = "Replaced" // in a complete list: new, changed or unchanged
	Sync     Type = "Sync"     // periodic repetition, unchanged
)

// Delta is one change of an object.
type Delta[T any] struct {
	Type   Type
	Object T
	// DeletedFinalStateUnknown marks a deletion that was inferred from a list without the object:
	// Object is its last known state.
	DeletedFinalStateUnknown bool
}

// Deltas has the changes of one object, oldest first. It is never empty.
type Deltas[T any] []Delta[T]

// Oldest returns the first change.
func (d Deltas[T]) Oldest() Delta[T] { return d[0] }

// Newest returns the last change.
func (d Deltas[T]) Newest() Delta[T] { return d[len(d)-1] }

// Known is the consumer's current state, such as a store.Indexer.
type Known[K comparable, T any] interface {
	Keys() []K
	Get(K) (T, bool)
}

// Config configures a Queue.
type Config[K comparable, T any] struct {
	// Key returns the identity of an object; required.
	Key func(T) K
	// Known is the consumer's state, for the deletions that a Replace implies, and for Resync.
	// Without it, only the objects in the queue are known, and every deletion is delivered.
	Known Known[K, T]
}

// Queue is a queue of deltas by key.
type Queue[K comparable, T any] struct {
	cfg   Config[K, T]
	turn  chan struct{} // held by the running Pop
	ready chan struct{} // receives a value when the queue may be nonempty

	mu         sync.Mutex
	items      map[K]Deltas[T]
	order      []K        // each key of items once
	processing *pop[K, T] // taken by a Pop and not finished
	populated  bool       // true after the first change or Replace
	initial    int        // number of keys of the first Replace that are not processed yet
	synced     chan struct{}
}

type pop[K comparable, T any] struct {
	key    K
	deltas Deltas[T]
}

// NewQueue returns an empty queue.
func NewQueue[K comparable, T any](cfg Config[K, T]) *Queue[K, T] {
	return &Queue[K, T]{
		cfg:    cfg,
		turn:   make(chan struct{}, 1),
		ready:  make(chan struct{}, 1),
		items:  map[K]Deltas[T]{},
		synced: make(chan struct{}),
	}
}

// Add adds the creation of an object.
func (q *Queue[K, T]) Add(obj T) { q.put(Delta[T]{Type: Added, Object: obj}) }

// Update adds the change of an object.
func (q *Queue[K, T]) Update(obj T) { q.put(Delta[T]{Type: Updated, Object: obj}) }

// Delete adds the deletion of an object, with its last state. It does nothing if the object is not
// known.
func (q *Queue[K, T]) Delete(obj T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	key := q.cfg.Key(obj)
	if q.cfg.Known != nil {
		if _, waiting := q.items[key]; !waiting && !q.isKnown(key) {
			return
		}
	}
	q.populate(0)
	q.queue(key, Delta[T]{Type: Deleted, Object: obj})
}

func (q *Queue[K, T]) put(d Delta[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.populate(0)
	q.queue(q.cfg.Key(d.Object), d)
}

// Replace adds all objects of a complete list, and the deletion of all other objects that are
// queued, being processed or known. It ignores the version.
func (q *Queue[K, T]) Replace(objs []T, _ string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	listed := make(map[K]bool, len(objs))
	for _, obj := range objs {
		key := q.cfg.Key(obj)
		listed[key] = true
		q.queue(key, Delta[T]{Type: Replaced, Object: obj})
	}
	gone := map[K]T{}
	if q.cfg.Known != nil {
		for _, key := range q.cfg.Known.Keys() {
			if obj, ok := q.cfg.Known.Get(key); ok && !listed[key] {
				gone[key] = obj
			}
		}
	}
	if p := q.processing; p != nil && !listed[p.key] {
		gone[p.key] = p.deltas.Newest().Object
		if p.deltas.Newest().Type == Deleted {
			delete(gone, p.key)
		}
	}
	for key, deltas := range q.items {
		if !listed[key] {
			gone[key] = deltas.Newest().Object
		}
	}
	for key, obj := range gone {
		q.queue(key, Delta[T]{Type: Deleted, Object: obj, DeletedFinalStateUnknown: true})
	}
	q.populate(len(q.order))
}

// Bookmark does nothing.
func (q *Queue[K, T]) Bookmark(string) {}

// Resync adds a Sync for all known objects without queued changes.
func (q *Queue[K, T]) Resync() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cfg.Known == nil {
		return
	}
	for _, key := range q.cfg.Known.Keys() {
		if obj, ok := q.cfg.Known.Get(key); ok && q.items[key] == nil &&
			(q.processing == nil || q.processing.key != key) {
			q.queue(key, Delta[T]{Type: Sync, Object: obj})
		}
	}
}

// queue appends a delta. Of two consecutive deletions it keeps one, preferably an observed one. The
// caller holds the lock.
func (q *Queue[K, T]) queue(key K, d Delta[T]) {
	deltas, waiting := q.items[key]
	if !waiting {
		q.order = append(q.order, key)
	}
	if n := len(deltas); n > 0 && d.Type == Deleted && deltas[n-1].Type == Deleted {
		if !d.DeletedFinalStateUnknown {
			deltas[n-1] = d
		}
	} else {
		deltas = append(deltas, d)
	}
	q.items[key] = deltas
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// isKnown reports whether the consumer has the object, or is about to. The caller holds the lock.
func (q *Queue[K, T]) isKnown(key K) bool {
	if p := q.processing; p != nil && p.key == key {
		return p.deltas.Newest().Type != Deleted
	}
	_, ok := q.cfg.Known.Get(key)
	return ok
}

// populate records how many keys the consumer must process until its state is complete. The caller
// holds the lock.
func (q *Queue[K, T]) populate(keys int) {
	if !q.populated {
		q.populated, q.initial = true, keys
		q.checkSynced()
	}
}

// checkSynced closes synced if the initial keys are processed. The caller holds the lock.
func (q *Queue[K, T]) checkSynced() {
	if q.populated && q.initial == 0 && !q.HasSynced() {
		close(q.synced)
	}
}

// Synced returns a channel that is closed when all keys of the first Replace are processed, or when
// another change came first.
func (q *Queue[K, T]) Synced() <-chan struct{} { return q.synced }

// HasSynced reports whether Synced is closed.
func (q *Queue[K, T]) HasSynced() bool {
	select {
	case <-q.synced:
		return true
	default:
		return false
	}
}

// Len returns the number of waiting keys.
func (q *Queue[K, T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// Pop waits for a key, passes its deltas to process, and returns the error of process, or that of
// ctx if ctx ends first. The deltas count as processed in any case. Only one Pop runs at a time, so
// that the consumer's state follows the order of the queue. initial is true until all keys of the
// first Replace are processed. process may add to the queue but must not call Pop.
func (q *Queue[K, T]) Pop(ctx context.Context, process func(key K, deltas Deltas[T], initial bool) error) error {
	select {
	case q.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-q.turn }()
	for {
		if p, initial := q.take(); p != nil {
			defer q.finish()
			return process(p.key, p.deltas, initial)
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (q *Queue[K, T]) take() (p *pop[K, T], initial bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		return nil, false
	}
	key := q.order[0]
	var none K
	q.order[0] = none // don't keep it alive
	q.order = q.order[1:]
	q.processing = &pop[K, T]{key, q.items[key]}
	delete(q.items, key)
	return q.processing, !q.HasSynced()
}

func (q *Queue[K, T]) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.processing = nil
	if q.initial > 0 {
		q.initial--
		q.checkSynced()
	}
}
