package store

import (
	"container/heap"
	"context"
	"sync"
)

// Heap is a queue that returns the smallest object first. Each key is in it once.
type Heap[K comparable, T any] struct {
	ready chan struct{}

	mu    sync.Mutex
	items items[K, T]
}

// NewHeap returns an empty heap. key returns the identity of an object; less is the order.
func NewHeap[K comparable, T any](key func(T) K, less func(a, b T) bool) *Heap[K, T] {
	return &Heap[K, T]{ready: make(chan struct{}, 1), items: items[K, T]{key: key, less: less, at: map[K]int{}}}
}

// Put adds an object, or replaces the one with the same key.
func (h *Heap[K, T]) Put(obj T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, ok := h.items.at[h.items.key(obj)]; ok {
		h.items.objs[at] = obj
		heap.Fix(&h.items, at)
	} else {
		heap.Push(&h.items, obj)
	}
	h.signal()
}

// Delete removes the object of a key, and returns it.
func (h *Heap[K, T]) Delete(key K) (obj T, had bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.items.at[key]
	if !ok {
		return obj, false
	}
	return heap.Remove(&h.items, at).(T), true
}

// Get returns an object without removing it.
func (h *Heap[K, T]) Get(key K) (obj T, had bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.items.at[key]
	if !ok {
		return obj, false
	}
	return h.items.objs[at], true
}

// Peek returns the smallest object without removing it.
func (h *Heap[K, T]) Peek() (obj T, any bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.items.objs) == 0 {
		return obj, false
	}
	return h.items.objs[0], true
}

// Len returns the number of objects.
func (h *Heap[K, T]) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.items.objs)
}

// Pop waits for an object, removes the smallest and returns it. The error is that of ctx.
func (h *Heap[K, T]) Pop(ctx context.Context) (T, error) {
	for {
		h.mu.Lock()
		if len(h.items.objs) > 0 {
			obj := heap.Pop(&h.items).(T)
			if len(h.items.objs) > 0 {
				h.signal() // for another waiting Pop
			}
			h.mu.Unlock()
			return obj, nil
		}
		h.mu.Unlock()
		select {
		case <-h.ready:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}

func (h *Heap[K, T]) signal() {
	select {
	case h.ready <- struct{}{}:
	default:
	}
}

// items is a heap.Interface with an index of the keys.
type items[K comparable, T any] struct {
	key  func(T) K
	less func(a, b T) bool
	objs []T
	at   map[K]int
}

func (i *items[K, T]) Len() int           { return len(i.objs) }
func (i *items[K, T]) Less(a, b int) bool { return i.less(i.objs[a], i.objs[b]) }

func (i *items[K, T]) Swap(a, b int) {
	i.objs[a], i.objs[b] = i.objs[b], i.objs[a]
	i.at[i.key(i.objs[a])], i.at[i.key(i.objs[b])] = a, b
}

func (i *items[K, T]) Push(v any) {
	obj := v.(T)
	i.at[i.key(obj)] = len(i.objs)
	i.objs = append(i.objs, obj)
}

func (i *items[K, T]) Pop() any {
	last := len(i.objs) - 1
	obj := i.objs[last]
	var none T
	i.objs[last] = none
	i.objs = i.objs[:last]
	delete(i.at, i.key(obj))
	return obj
}
