package delta

import (
	"context"
	"sync"
)

// FIFO is a queue of objects in the order in which their keys came, each as it was put in last. What is deleted before its turn
// is not told.
type FIFO[K comparable, T any] struct {
	key   func(T) K
	ready chan struct{}

	mu    sync.Mutex
	items map[K]T
	order []K // each key of items once
}

// NewFIFO makes an empty FIFO. key is the identity of an object.
func NewFIFO[K comparable, T any](key func(T) K) *FIFO[K, T] {
	return &FIFO[K, T]{key: key, ready: make(chan struct{}, 1), items: map[K]T{}}
}

// Add puts an object in, in the place of an older state that waits, else at the end.
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

// Delete takes an object out.
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

// Replace makes objs the whole content, in their order. The version is not looked at.
func (q *FIFO[K, T]) Replace(objs []T, _ string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items, q.order = make(map[K]T, len(objs)), nil
	for _, obj := range objs {
		q.add(obj)
	}
}

// Bookmark and Resync are nothing to a FIFO: what waits is told anyway.
func (q *FIFO[K, T]) Bookmark(string) {}

// Resync is nothing to a FIFO.
func (q *FIFO[K, T]) Resync() {}

// Len is the number of objects that wait.
func (q *FIFO[K, T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// Pop waits for an object and takes it out. The error is that of ctx.
func (q *FIFO[K, T]) Pop(ctx context.Context) (T, error) {
	for {
		q.mu.Lock()
		if len(q.order) > 0 {
			key := q.order[0]
			q.order = q.order[1:]
			obj := q.items[key]
			delete(q.items, key)
			if len(q.order) > 0 {
				q.signal() // for another Pop that waits
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
