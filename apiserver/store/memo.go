package store

import (
	"bytes"
	"reflect"
	"slices"
	"sync"
	"unsafe"
)

// Memo returns the result of the first successful call of make for this key and object. So an
// encoding of one revision, or its decoded form, is made once and shared. It is safe for concurrent
// use. Errors are not cached. Results are discarded when the store's budget requires it, the least
// recently used first; those of a replaced revision also after some hundred more writes to its
// resource. An object that is not from a store caches nothing.
func (o *Object) Memo(key any, make func() (any, error)) (any, error) {
	return o.memo.get(o.budget, key, make)
}

// Renew is like Memo, but it always calls make, and the result replaces an earlier one.
func (o *Object) Renew(key any, make func() (any, error)) (any, error) {
	v, err := make()
	if err != nil {
		return nil, err
	}
	o.memo.put(o.budget, key, v)
	return v, nil
}

// Memo returns the result of the first successful call of make for this key and event, so that an
// event is encoded once for all watchers. It is safe for concurrent use; concurrent first calls may
// run make more than once, and one result wins. Errors are not cached. Results are discarded after
// some hundred more events, or earlier if the store's budget requires it.
func (e *Event) Memo(key any, make func() (any, error)) (any, error) {
	return e.memo.get(e.Object.budget, key, make)
}

// maxResults is the number of results of one memo. Keys of kinds that have changed are never used
// again.
const maxResults = 16

// memo has the results of Memo for one object or event.
type memo struct {
	mu      sync.Mutex
	results *results // nil: none
	size    uint32   // bytes of the object, from which the sizes of decoded forms are estimated
	sealed  bool
}

func (m *memo) isSealed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sealed
}

// seal discards the results and makes get stop caching.
func (m *memo) seal(b *budget) {
	m.mu.Lock()
	r := m.results
	m.results, m.sealed = nil, true
	m.mu.Unlock()
	if r != nil {
		b.memos.remove(r)
	}
}

// drop discards the results, which are r, unless they were used since the last call. The caller
// holds the lock of the cache.
func (m *memo) drop(r *results) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.results == r {
		if r.recent {
			r.recent = false
			return false
		}
		m.results = nil
	}
	return true
}

func (m *memo) get(b *budget, key any, make func() (any, error)) (any, error) {
	m.mu.Lock()
	v, ok := m.find(key)
	m.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := make()
	if err != nil {
		return nil, err
	}
	if b == nil {
		return v, nil
	}
	v, added := m.add(key, v)
	if added {
		b.memos.settle(m)
		b.grown()
	}
	return v, nil
}

func (m *memo) find(key any) (any, bool) {
	if m.results == nil {
		return nil, false
	}
	for i := range m.results.list {
		if m.results.list[i].key == key {
			m.results.recent = true
			return m.results.list[i].value, true
		}
	}
	return nil, false
}

// add adds a result, unless the memo is sealed or another goroutine was first. It returns the
// result to use.
func (m *memo) add(key, v any) (won any, added bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if won, ok := m.find(key); ok {
		return won, false
	}
	if m.sealed {
		return v, false
	}
	v = clip(v)
	m.append(result{key, v})
	return v, true
}

// put replaces a result, or adds it. It does nothing if the memo is sealed.
func (m *memo) put(b *budget, key, v any) {
	if b == nil {
		return
	}
	m.mu.Lock()
	if m.sealed {
		m.mu.Unlock()
		return
	}
	if r := m.results; r != nil {
		r.list = slices.DeleteFunc(r.list, func(old result) bool {
			if old.key == key {
				r.bytes -= m.sizeOf(old.value)
			}
			return old.key == key
		})
	}
	m.append(result{key, clip(v)})
	m.mu.Unlock()
	b.memos.settle(m)
	b.grown()
}

// append adds a result. The caller holds mu.
func (m *memo) append(added result) {
	if m.results == nil {
		m.results = &results{bytes: resultsBytes}
	}
	r := m.results
	if len(r.list) >= maxResults {
		r.bytes -= m.sizeOf(r.list[0].value)
		r.list = slices.Delete(r.list, 0, 1)
	}
	r.list = append(r.list, added)
	r.bytes += m.sizeOf(added.value)
}

const (
	// resultsBytes is the memory that results need without their values: the struct and its list.
	resultsBytes = int64(unsafe.Sizeof(results{}))
	// resultBytes is the memory of a result with its key, without the value.
	resultBytes = int64(unsafe.Sizeof(result{})) + 128
	// decodedFactor is the memory of a decoded object, divided by that of the stored one.
	decodedFactor = 3
)

// clip returns the bytes that an encoder has made without the unused rest of its buffer.
func clip(v any) any {
	if data, ok := v.([]byte); ok && cap(data)-len(data) > len(data)/8 {
		return bytes.Clone(data)[:len(data):len(data)]
	}
	return v
}

// sizeOf returns the memory of a result; of values other than bytes it is an estimate.
func (m *memo) sizeOf(v any) int64 {
	switch v := v.(type) {
	case []byte:
		return resultBytes + int64(cap(v))
	case bool:
		return resultBytes
	}
	if value := reflect.ValueOf(v); value.Kind() == reflect.Map {
		return resultBytes + 96*int64(value.Len())
	}
	return resultBytes + decodedFactor*int64(m.size)
}
