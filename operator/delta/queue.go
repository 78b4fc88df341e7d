package delta

import (
	"context"
	"sync"
)

// Type says what happened.
type Type string

const (
	Added    Type = "Added"
	Updated  Type = "Updated"
	Deleted  Type = "Deleted"
	Replaced Type = "Replaced" // it is in a complete list: it may be new, changed, or as it was
	Sync     Type = "Sync"     // nothing happened: a periodic reminder
)

// Delta is one change of an object.
type Delta[T any] struct {
	Type   Type
	Object T
	// DeletedFinalStateUnknown marks a deletion that was not seen, only concluded from a list that lacks the object: Object is the
	// last state known.
	DeletedFinalStateUnknown bool
}

// Deltas is the changes of one object, the oldest first. There is at least one.
type Deltas[T any] []Delta[T]

// Oldest is the first change.
func (d Deltas[T]) Oldest() Delta[T] { return d[0] }

// Newest is the last change.
func (d Deltas[T]) Newest() Delta[T] { return d[len(d)-1] }

// Known is what the consumer has made of the deltas so far; a store.Indexer is one.
type Known[K comparable, T any] interface {
	Keys() []K
	Get(K) (T, bool)
}

// Config says what a queue holds.
type Config[K comparable, T any] struct {
	// Key is the identity of an object; required.
	Key func(T) K
	// Known is what the consumer has, for the deletions that a Replace implies, and for Resync. Without it only what is in the queue
	// is known, and every deletion is told.
	Known Known[K, T]
}

// Queue is a queue of deltas by key.
type Queue[K comparable, T any] struct {
	cfg   Config[K, T]
	turn  chan struct{} // held by the one Pop that is under way
	ready chan struct{} // has an element when there may be something to take

	mu         sync.Mutex
	items      map[K]Deltas[T]
	order      []K        // each key of items once
	processing *pop[K, T] // what a Pop has taken and not finished
	populated  bool       // the first Replace, or anything before it, was put in
	initial    int        // how many keys of the first Replace are still to be processed
	synced     chan struct{}
}

type pop[K comparable, T any] struct {
	key    K
	deltas Deltas[T]
}

// NewQueue makes an empty queue.
func NewQueue[K comparable, T any](cfg Config[K, T]) *Queue[K, T] {
	return &Queue[K, T]{
		cfg:    cfg,
		turn:   make(chan struct{}, 1),
		ready:  make(chan struct{}, 1),
		items:  map[K]Deltas[T]{},
		synced: make(chan struct{}),
	}
}

// Add puts in that an object came into being.
func (q *Queue[K, T]) Add(obj T) { q.put(Delta[T]{Type: Added, Object: obj}) }

// Update puts in that an object changed.
func (q *Queue[K, T]) Update(obj T) { q.put(Delta[T]{Type: Updated, Object: obj}) }

// Delete puts in that an object was deleted, with its last state. It is nothing if nobody knows of the object.
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

// Replace puts in every object of a complete list, and the deletion of every other that is waiting, being processed or known. The
// version is not looked at.
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

// Bookmark is nothing to a queue.
func (q *Queue[K, T]) Bookmark(string) {}

// Resync puts in a reminder of everything known that nothing is waiting for.
func (q *Queue[K, T]) Resync() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cfg.Known == nil {
		return
	}
	for _, key := range q.cfg.Known.Keys() {
		if obj, ok := q.cfg.Known.Get(key); ok && q.items[key] == nil && (q.processing == nil || q.processing.key != key) {
			q.queue(key, Delta[T]{Type: Sync, Object: obj})
		}
	}
}

// queue, under the lock, appends a delta. Of two deletions in a row one is kept, the one that was seen if there is one.
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

// isKnown, under the lock, says that the consumer has the object, or is about to.
func (q *Queue[K, T]) isKnown(key K) bool {
	if p := q.processing; p != nil && p.key == key {
		return p.deltas.Newest().Type != Deleted
	}
	_, ok := q.cfg.Known.Get(key)
	return ok
}

// populate, under the lock, notes how many keys the consumer must process before it has a complete state.
func (q *Queue[K, T]) populate(keys int) {
	if !q.populated {
		q.populated, q.initial = true, keys
		q.checkSynced()
	}
}

// checkSynced, under the lock, closes synced when it is time.
func (q *Queue[K, T]) checkSynced() {
	if q.populated && q.initial == 0 && !q.HasSynced() {
		close(q.synced)
	}
}

// Synced is closed when everything of the first Replace has been processed, or something else came first.
func (q *Queue[K, T]) Synced() <-chan struct{} { return q.synced }

// HasSynced says that Synced is closed.
func (q *Queue[K, T]) HasSynced() bool {
	select {
	case <-q.synced:
		return true
	default:
		return false
	}
}

// Len is the number of keys that wait.
func (q *Queue[K, T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// Pop waits for a key, gives its deltas to process and returns the error of that, or of ctx when there is nothing before ctx ends.
// Deltas count as processed either way. One Pop runs at a time, so that the consumer's state follows the order of the queue;
// initial says that the key belongs to the first Replace. process may put into the queue; it must not Pop.
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
	q.order[0] = none // not kept alive by the array
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
