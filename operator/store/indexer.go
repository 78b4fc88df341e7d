package store

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Index returns the values under which an object is indexed; none if it is not in the index.
type Index[T any] func(obj T) []string

// Config configures an Indexer.
type Config[K comparable, T any] struct {
	// Key returns the identity of an object; required.
	Key func(T) K
	// Indexes are the initial indexes.
	Indexes map[string]Index[T]
}

// Indexer is a thread-safe map of objects with indexes. An index function is called under the lock:
// it must not use the Indexer. It must always return the same values for the same object, which
// must not be modified; otherwise ByIndex may return objects that no longer have the value.
//
//	items:    key → object
//	indexes:  name → value → set of keys
type Indexer[K comparable, T any] struct {
	key func(T) K

	mu      sync.RWMutex
	items   map[K]T
	indexes map[string]*index[K, T]
}

type index[K comparable, T any] struct {
	values Index[T]
	keys   map[string]map[K]struct{}
}

// NewIndexer returns an empty Indexer.
func NewIndexer[K comparable, T any](cfg Config[K, T]) *Indexer[K, T] {
	x := &Indexer[K, T]{key: cfg.Key, items: map[K]T{}, indexes: map[string]*index[K, T]{}}
	for name, values := range cfg.Indexes {
		x.indexes[name] = &index[K, T]{values: values, keys: map[string]map[K]struct{}{}}
	}
	return x
}

// Put adds an object, and returns the previous one with the same key.
func (x *Indexer[K, T]) Put(obj T) (old T, had bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := x.key(obj)
	old, had = x.items[key]
	x.items[key] = obj
	for _, i := range x.indexes {
		if had {
			i.remove(key, old)
		}
		i.add(key, obj)
	}
	return old, had
}

// Delete removes the object of a key, and returns it.
func (x *Indexer[K, T]) Delete(key K) (old T, had bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old, had = x.items[key]; had {
		delete(x.items, key)
		for _, i := range x.indexes {
			i.remove(key, old)
		}
	}
	return old, had
}

// Replace sets the content to objs, atomically.
func (x *Indexer[K, T]) Replace(objs []T) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.items = make(map[K]T, len(objs))
	for _, obj := range objs {
		x.items[x.key(obj)] = obj
	}
	for _, i := range x.indexes {
		i.fill(x.items)
	}
}

// Get returns the object of a key.
func (x *Indexer[K, T]) Get(key K) (T, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	obj, ok := x.items[key]
	return obj, ok
}

// List returns all objects, in no particular order.
func (x *Indexer[K, T]) List() []T {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.AppendSeq(make([]T, 0, len(x.items)), maps.Values(x.items))
}

// Keys returns all keys, in no particular order.
func (x *Indexer[K, T]) Keys() []K {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.AppendSeq(make([]K, 0, len(x.items)), maps.Keys(x.items))
}

// Len returns the number of objects.
func (x *Indexer[K, T]) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.items)
}

// AddIndex adds an index of existing and future objects. The error wraps ErrIndexExists.
func (x *Indexer[K, T]) AddIndex(name string, values Index[T]) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.indexes[name]; ok {
		return fmt.Errorf("add index %q: %w", name, ErrIndexExists)
	}
	i := &index[K, T]{values: values}
	i.fill(x.items)
	x.indexes[name] = i
	return nil
}

// HasIndex reports whether an index exists.
func (x *Indexer[K, T]) HasIndex(name string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.indexes[name] != nil
}

// IndexOf returns the values of an index for obj, which need not be in the store. The error wraps
// ErrNoIndex.
func (x *Indexer[K, T]) IndexOf(name string, obj T) ([]string, error) {
	x.mu.RLock()
	i := x.indexes[name]
	x.mu.RUnlock()
	if i == nil {
		return nil, fmt.Errorf("index %q: %w", name, ErrNoIndex)
	}
	return i.values(obj), nil
}

// ByIndex returns the objects that an index has under a value, in no particular order. The error
// wraps ErrNoIndex.
func (x *Indexer[K, T]) ByIndex(name, value string) ([]T, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	i := x.indexes[name]
	if i == nil {
		return nil, fmt.Errorf("index %q: %w", name, ErrNoIndex)
	}
	keys := i.keys[value]
	objs := make([]T, 0, len(keys))
	for key := range keys {
		if obj, ok := x.items[key]; ok { // otherwise the values of a deleted object had changed
			objs = append(objs, obj)
		}
	}
	return objs, nil
}

// IndexValues returns all values of an index, in no particular order. The error wraps ErrNoIndex.
func (x *Indexer[K, T]) IndexValues(name string) ([]string, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	i := x.indexes[name]
	if i == nil {
		return nil, fmt.Errorf("index %q: %w", name, ErrNoIndex)
	}
	return slices.Collect(maps.Keys(i.keys)), nil
}

func (i *index[K, T]) fill(items map[K]T) {
	i.keys = map[string]map[K]struct{}{}
	for key, obj := range items {
		i.add(key, obj)
	}
}

func (i *index[K, T]) add(key K, obj T) {
	for _, value := range i.values(obj) {
		if i.keys[value] == nil {
			i.keys[value] = map[K]struct{}{}
		}
		i.keys[value][key] = struct{}{}
	}
}

func (i *index[K, T]) remove(key K, obj T) {
	for _, value := range i.values(obj) {
		delete(i.keys[value], key)
		if len(i.keys[value]) == 0 {
			delete(i.keys, value)
		}
	}
}
