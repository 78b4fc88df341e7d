package store

import (
	"container/heap"
	"context"
	"sync"
)

// Heap is a queue that gives out the smallest object first, each key once.
type Heap[K comparable, T any] struct {
	ready chan struct{}

	mu    sync.Mutex
	items items[K, T]
}

// NewHeap makes an empty heap. key is the identity of an object, less the order.
func NewHeap[K comparable, T any](key func(T) K, less func(a, b T) bool) *Heap[K, T] {
	return &Heap[K, T]{ready: make(chan struct{}, 1), items: items[K, T]{key: key, less: less, at: map[K]int{}}}
}

// Put puts an object in, or in the place of the one that has its key.
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

// Delete takes the object of a key out, and returns it.
func (h *Heap[K, T]) Delete(key K) (obj T, had bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.items.at[key]
	if !ok {
		return obj, false
	}
	return heap.Remove(&h.items, at).(T), true
}

// Get finds an object, and leaves it in.
func (h *Heap[K, T]) Get(key K) (obj T, had bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.items.at[key]
	if !ok {
		return obj, false
	}
	return h.items.objs[at], true
}

// Peek is the smallest object, which stays in.
func (h *Heap[K, T]) Peek() (obj T, any bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.items.objs) == 0 {
		return obj, false
	}
	return h.items.objs[0], true
}

// Len is the number of objects.
func (h *Heap[K, T]) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.items.objs)
}

// Pop waits for an object and takes the smallest out. The error is that of ctx.
func (h *Heap[K, T]) Pop(ctx context.Context) (T, error) {
	for {
		h.mu.Lock()
		if len(h.items.objs) > 0 {
			obj := heap.Pop(&h.items).(T)
			if len(h.items.objs) > 0 {
				h.signal() // for another Pop that waits
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

// items is a container/heap that knows where each key is.
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
