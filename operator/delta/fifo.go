package delta

import (
	"context"
	"sync"
)

// FIFO is a queue of the newest state of objects, in the order in which their keys were added.
// Objects deleted before they are popped are dropped.
type FIFO[K comparable, T any] struct {
	key   func(T) K
	ready chan struct{}

	mu    sync.Mutex
	items map[K]T
	order []K // each key of items once
}

// NewFIFO returns an empty FIFO. key returns the identity of an object.
func NewFIFO[K comparable, T any](key func(T) K) *FIFO[K, T] {
	return &FIFO[K, T]{key: key, ready: make(chan struct{}, 1), items: map[K]T{}}
}

// Add replaces the waiting state of an object, or appends the object.
func (q *FIFO[K, T]) Add(obj T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(obj)
}

// Update is Add.
func (q *FIFO[K, T]) Update(obj T) { q.Add(obj) }

func (q *FIFO[K, T]) add(obj T) {
	key := q.key(obj)
	if _, waiting := q.items[key]; !waiting {
		q.order = append(q.order, key)
	}
	q.items[key] = obj
	q.signal()
}

func (q *FIFO[K, T]) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// Delete removes an object.
func (q *FIFO[K, T]) Delete(obj T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	key := q.key(obj)
	if _, waiting := q.items[key]; waiting {
		delete(q.items, key)
		q.drop(key)
	}
}

func (q *FIFO[K, T]) drop(key K) {
	for n := range q.order {
		if q.order[n] == key {
			q.order = append(q.order[:n], q.order[n+1:]...)
			return
		}
	}
}

// Replace sets the content to objs, in their order. It ignores the version.
func (q *FIFO[K, T]) Replace(objs []T, _ string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items, q.order = make(map[K]T, len(objs)), nil
	for _, obj := range objs {
		q.add(obj)
	}
}

// Bookmark does nothing.
func (q *FIFO[K, T]) Bookmark(string) {}

// Resync does nothing.
func (q *FIFO[K, T]) Resync() {}

// Len returns the number of waiting objects.
func (q *FIFO[K, T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// Pop waits for an object, removes it and returns it. The error is that of ctx.
func (q *FIFO[K, T]) Pop(ctx context.Context) (T, error) {
	for {
		q.mu.Lock()
		if len(q.order) > 0 {
			key := q.order[0]
			q.order = q.order[1:]
			obj := q.items[key]
			delete(q.items, key)
			if len(q.order) > 0 {
				q.signal() // for another waiting Pop
			}
			q.mu.Unlock()
			return obj, nil
		}
		q.mu.Unlock()
		select {
		case <-q.ready:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}
