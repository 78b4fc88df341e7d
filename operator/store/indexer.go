package store

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Index gives the values under which an object is found; none if it is not to be found.
type Index[T any] func(obj T) []string

// Config says what an Indexer holds.
type Config[K comparable, T any] struct {
	// Key is the identity of an object; required.
	Key func(T) K
	// Indexes are there from the beginning.
	Indexes map[string]Index[T]
}

// Indexer is a thread-safe map of objects with indexes. An index function is called under the lock: it must not use the Indexer.
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
	of   Index[T]
	keys map[string]map[K]struct{}
}

// NewIndexer makes an empty Indexer.
func NewIndexer[K comparable, T any](cfg Config[K, T]) *Indexer[K, T] {
	x := &Indexer[K, T]{key: cfg.Key, items: map[K]T{}, indexes: map[string]*index[K, T]{}}
	for name, of := range cfg.Indexes {
		x.indexes[name] = &index[K, T]{of: of, keys: map[string]map[K]struct{}{}}
	}
	return x
}

// Put sets an object, and returns the one that had its key before.
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

// Replace makes objs the whole content, at once.
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

// Get finds an object.
func (x *Indexer[K, T]) Get(key K) (T, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	obj, ok := x.items[key]
	return obj, ok
}

// List is all objects, in no order.
func (x *Indexer[K, T]) List() []T {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.AppendSeq(make([]T, 0, len(x.items)), maps.Values(x.items))
}

// Keys is all keys, in no order.
func (x *Indexer[K, T]) Keys() []K {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.AppendSeq(make([]K, 0, len(x.items)), maps.Keys(x.items))
}

// Len is the number of objects.
func (x *Indexer[K, T]) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.items)
}

// AddIndex adds an index over what is there and what will come. The error wraps ErrIndexExists.
func (x *Indexer[K, T]) AddIndex(name string, of Index[T]) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.indexes[name]; ok {
		return fmt.Errorf("add index %q: %w", name, ErrIndexExists)
	}
	i := &index[K, T]{of: of}
	i.fill(x.items)
	x.indexes[name] = i
	return nil
}

// HasIndex says that there is an index of that name.
func (x *Indexer[K, T]) HasIndex(name string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.indexes[name] != nil
}

// IndexOf is the values under which an index finds obj, which need not be in the store. The error wraps ErrNoIndex.
func (x *Indexer[K, T]) IndexOf(name string, obj T) ([]string, error) {
	x.mu.RLock()
	i := x.indexes[name]
	x.mu.RUnlock()
	if i == nil {
		return nil, fmt.Errorf("index %q: %w", name, ErrNoIndex)
	}
	return i.of(obj), nil
}

// ByIndex is the objects that an index finds under a value, in no order. The error wraps ErrNoIndex.
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
		objs = append(objs, x.items[key])
	}
	return objs, nil
}

// IndexValues is all values an index has, in no order. The error wraps ErrNoIndex.
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
	for _, value := range i.of(obj) {
		if i.keys[value] == nil {
			i.keys[value] = map[K]struct{}{}
		}
		i.keys[value][key] = struct{}{}
	}
}

func (i *index[K, T]) remove(key K, obj T) {
	for _, value := range i.of(obj) {
		delete(i.keys[value], key)
		if len(i.keys[value]) == 0 {
			delete(i.keys, value)
		}
	}
}
