// Package boundedmap has a map of bounded size that keeps the most recently set entries.
package boundedmap

import "maps"

// Map keeps the keys that were set last. It is not safe for concurrent use.
//
// It is an interface because the go command compiles the methods of a generic struct again in each
// package that imports a type with such a field, even in every package of an operator.
type Map[K comparable, V any] interface {
	// Get returns the value of a key, if it was not dropped.
	Get(k K) (V, bool)
	// Set sets the value of a key.
	Set(k K, v V)
	// Drop removes the keys for which match returns true, and returns them with their values.
	Drop(match func(K) bool) map[K]V
}

// New returns a Map that keeps at least size keys, and at most twice as many. gone, if not nil, is
// called for each value that leaves the map because it is full.
func New[K comparable, V any](size int, gone func(V)) Map[K, V] {
	return &generations[K, V]{size: size, gone: gone, young: map[K]V{}}
}

// generations is a Map with two generations. It drops the older one when the younger is full.
type generations[K comparable, V any] struct {
	size       int
	gone       func(V)
	young, old map[K]V
}

func (m *generations[K, V]) Get(k K) (V, bool) {
	v, ok := m.young[k]
	if !ok {
		v, ok = m.old[k]
	}
	return v, ok
}

func (m *generations[K, V]) Set(k K, v V) {
	if len(m.young) >= m.size {
		m.old, m.young = m.young, m.emptied()
	}
	m.young[k] = v
}

// emptied calls gone for the values of the older generation and returns it, cleared, for reuse.
func (m *generations[K, V]) emptied() map[K]V {
	if m.old == nil {
		return map[K]V{}
	}
	if m.gone != nil {
		for k, v := range m.old {
			if _, still := m.young[k]; !still {
				m.gone(v)
			}
		}
	}
	clear(m.old)
	return m.old
}

func (m *generations[K, V]) Drop(match func(K) bool) map[K]V {
	dropped := map[K]V{}
	for _, generation := range []map[K]V{m.old, m.young} {
		maps.DeleteFunc(generation, func(k K, v V) bool {
			if !match(k) {
				return false
			}
			dropped[k] = v
			return true
		})
	}
	return dropped
}
