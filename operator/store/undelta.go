package store

import "sync"

// Undelta undoes deltas: after each change a function is told the whole content. It is a reflector sink, for consumers that
// are small and want a state, not changes.
type Undelta[K comparable, T any] struct {
	mu   sync.Mutex // told in the order of the changes
	objs *Indexer[K, T]
	push func([]T)
}

// NewUndelta makes an empty store. push gets the content, in no order, after each change, one call at a time; it must not use the
// store.
func NewUndelta[K comparable, T any](key func(T) K, push func([]T)) *Undelta[K, T] {
	return &Undelta[K, T]{objs: NewIndexer(Config[K, T]{Key: key}), push: push}
}

// Add puts an object in.
func (u *Undelta[K, T]) Add(obj T) { u.change(func() { u.objs.Put(obj) }) }

// Update puts an object in.
func (u *Undelta[K, T]) Update(obj T) { u.change(func() { u.objs.Put(obj) }) }

// Delete takes an object out.
func (u *Undelta[K, T]) Delete(obj T) { u.change(func() { u.objs.Delete(u.objs.key(obj)) }) }

// Replace makes objs the whole content. The version is not looked at.
func (u *Undelta[K, T]) Replace(objs []T, _ string) { u.change(func() { u.objs.Replace(objs) }) }

// Bookmark changes nothing.
func (u *Undelta[K, T]) Bookmark(string) {}

// Resync tells the content again.
func (u *Undelta[K, T]) Resync() { u.change(func() {}) }

func (u *Undelta[K, T]) change(do func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	do()
	u.push(u.objs.List())
}

// Get finds an object.
func (u *Undelta[K, T]) Get(key K) (T, bool) { return u.objs.Get(key) }

// List is the content, in no order.
func (u *Undelta[K, T]) List() []T { return u.objs.List() }
