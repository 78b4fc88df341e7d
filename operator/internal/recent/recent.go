// Package recent keeps what was noted last, within bounds.
package recent

import "maps"

// defaultSize is that of a Map without one.
const defaultSize = 4096

// Map keeps the values that were set last, of Size keys (4096 if zero) and twice as many at most: there are two generations, and the older is dropped
// when the younger is full. The zero value is ready for use, by one goroutine at a time.
type Map[K comparable, V any] struct {
	Size int
	// Gone, if set, is told of each value that makes room for others.
	Gone func(V)

	young, old map[K]V
}

// Get is the value of a key, if it is still known.
func (m *Map[K, V]) Get(k K) (V, bool) {
	v, ok := m.young[k]
	if !ok {
		v, ok = m.old[k]
	}
	return v, ok
}

// Set notes a value.
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

// emptied is the older generation without its values, which make room.
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

// Drop takes out what is under some keys, and returns what Get would have.
func (m *Map[K, V]) Drop(which func(K) bool) map[K]V {
	dropped := map[K]V{}
	for _, generation := range []map[K]V{m.old, m.young} {
		maps.DeleteFunc(generation, func(k K, v V) bool {
			if !which(k) {
				return false
			}
			dropped[k] = v
			return true
		})
	}
	return dropped
}
