package store

import "sync"

// Undelta calls a function with the complete content after each change. It is a reflector sink, for
// small collections whose consumer needs the state instead of the changes.
type Undelta[K comparable, T any] struct {
	mu   sync.Mutex // serializes changes and pushes
	objs *Indexer[K, T]
	push func([]T)
}

// NewUndelta returns an empty store. push gets the content, in no particular order, after each
// change, one call at a time; it must not use the store.
func NewUndelta[K comparable, T any](key func(T) K, push func([]T)) *Undelta[K, T] {
	return &Undelta[K, T]{objs: NewIndexer(Config[K, T]{Key: key}), push: push}
}

// Add adds an object.
func (u *Undelta[K, T]) Add(obj T) { u.change(func() { u.objs.Put(obj) }) }

// Update replaces an object.
func (u *Undelta[K, T]) Update(obj T) { u.change(func() { u.objs.Put(obj) }) }

// Delete removes an object.
func (u *Undelta[K, T]) Delete(obj T) { u.change(func() { u.objs.Delete(u.objs.key(obj)) }) }

// Replace sets the content to objs. It ignores the version.
func (u *Undelta[K, T]) Replace(objs []T, _ string) { u.change(func() { u.objs.Replace(objs) }) }

// Bookmark does nothing.
func (u *Undelta[K, T]) Bookmark(string) {}

// Resync pushes the content again.
func (u *Undelta[K, T]) Resync() { u.change(func() {}) }

func (u *Undelta[K, T]) change(do func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	do()
	u.push(u.objs.List())
}

// Get returns the object of a key.
func (u *Undelta[K, T]) Get(key K) (T, bool) { return u.objs.Get(key) }

// List returns the content, in no particular order.
func (u *Undelta[K, T]) List() []T { return u.objs.List() }
