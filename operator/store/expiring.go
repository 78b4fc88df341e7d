package store

import (
	"sync"
	"time"
)

// Expiring is a map whose objects expire. It has no goroutine: Get and List ignore expired objects,
// and a Put removes them if the last removal was at least a lifetime ago.
type Expiring[K comparable, T any] struct {
	key  func(T) K
	life func(T) time.Duration

	mu    sync.Mutex
	items map[K]expiring[T]
	swept time.Time
}

type expiring[T any] struct {
	obj   T
	until time.Time
}

// NewExpiring returns an empty store. key returns the identity of an object, life its lifetime.
func NewExpiring[K comparable, T any](key func(T) K, life func(T) time.Duration) *Expiring[K, T] {
	return &Expiring[K, T]{key: key, life: life, items: map[K]expiring[T]{}}
}

// Put adds an object, with its full lifetime from now.
func (e *Expiring[K, T]) Put(obj T) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, life := time.Now(), e.life(obj)
	if now.Sub(e.swept) > life {
		e.swept = now
		for key, item := range e.items {
			if !now.Before(item.until) {
				delete(e.items, key)
			}
		}
	}
	e.items[e.key(obj)] = expiring[T]{obj, now.Add(life)}
}

// Get returns an object that has not expired.
func (e *Expiring[K, T]) Get(key K) (obj T, had bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	item, ok := e.items[key]
	if !ok || !time.Now().Before(item.until) {
		return obj, false
	}
	return item.obj, true
}

// Delete removes an object.
func (e *Expiring[K, T]) Delete(key K) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.items, key)
}

// List returns all objects that have not expired, in no particular order.
func (e *Expiring[K, T]) List() []T {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	var objs []T
	for _, item := range e.items {
		if now.Before(item.until) {
			objs = append(objs, item.obj)
		}
	}
	return objs
}
