// Package boundedmap has a map of bounded size that keeps the most recently set entries.
package boundedmap

import "maps"

// defaultSize is the Size of a Map without one.
const defaultSize = 4096

// Map keeps at least the Size (4096 if zero) keys that were set last, and at most twice as many: it
// has two generations, and drops the older when the younger is full. The zero value is ready for
// use. It is not safe for concurrent use.
type Map[K comparable, V any] struct {
	Size int
	// Gone, if not nil, is called for each dropped value.
	Gone func(V)

	young, old map[K]V
}

// Get returns the value of a key, if it was not dropped.
func (m *Map[K, V]) Get(k K) (V, bool) {
	v, ok := m.young[k]
	if !ok {
		v, ok = m.old[k]
	}
	return v, ok
}

// Set sets the value of a key.
func (m *Map[K, V]) Set(k K, v V) {
	size := m.Size
	if size == 0 {
		size = defaultSize
	}
	if m.young == nil || len(m.young) >= size {
		m.old, m.young = m.young, m.emptied()
	}
	m.young[k] = v
}

// emptied calls Gone for the values of the older generation and returns it, cleared, for reuse.
func (m *Map[K, V]) emptied() map[K]V {
	if m.old == nil {
		return map[K]V{}
	}
	if m.Gone != nil {
		for k, v := range m.old {
			if _, still := m.young[k]; !still {
				m.Gone(v)
			}
		}
	}
	clear(m.old)
	return m.old
}

// Drop removes the keys for which match returns true, and returns them with their
// values.
func (m *Map[K, V]) Drop(match func(K) bool) map[K]V {
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
