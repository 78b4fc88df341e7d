package store

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Object is one revision of one stored object. All readers share it; it never changes.
type Object struct {
	// Data is the object in its storage version, as JSON. Never change it.
	Data []byte
	// Revision is the revision of the write that produced this state. Data contains it as
	// metadata.resourceVersion.
	Revision uint64
	// Created is the revision of the write that created the object.
	Created uint64
	Key     Key
	Head    Head

	path    string // of Key, whose strings are its substrings
	version span   // of the value of resourceVersion in Data
	memo    memo
}

// Head is the part of an object that the control plane needs without decoding it.
type Head struct {
	UID               types.UID
	Generation        int64
	Labels            map[string]string
	Owners            []Owner
	Finalizers        []string
	DeletionTimestamp time.Time // zero: not being deleted
	CreationTimestamp time.Time
}

// Owner is one owner reference.
type Owner struct {
	APIVersion         string
	Kind               string
	Name               string
	UID                types.UID
	Controller         bool
	BlockOwnerDeletion bool
}

// Memo returns the result of the first successful call of make for this key and object. So an
// encoding of one revision, or its decoded form, is made once and shared. It is safe for concurrent
// use. Errors are not cached. The cache of a replaced revision is discarded after some hundred more
// writes to its resource.
func (o *Object) Memo(key any, make func() (any, error)) (any, error) { return o.memo.get(key, make) }

// Renew is like Memo, but it always calls make, and the result replaces an earlier one.
func (o *Object) Renew(key any, make func() (any, error)) (any, error) {
	v, err := make()
	if err != nil {
		return nil, err
	}
	o.memo.put(key, v)
	return v, nil
}

// memo is a small map that is filled on demand.
type memo struct {
	mu     sync.Mutex
	m      map[any]any
	sealed bool
}

func (m *memo) isSealed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sealed
}

// seal discards the contents and makes get stop caching.
func (m *memo) seal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.m, m.sealed = nil, true
}

// put sets a value. It does nothing if the memo is sealed.
func (m *memo) put(key, v any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sealed {
		return
	}
	if m.m == nil {
		m.m = map[any]any{}
	}
	m.m[key] = v
}

func (m *memo) get(key any, make func() (any, error)) (any, error) {
	m.mu.Lock()
	v, ok := m.m[key]
	m.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := make()
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if won, ok := m.m[key]; ok {
		return won, nil
	}
	if m.sealed {
		return v, nil
	}
	if m.m == nil {
		m.m = map[any]any{}
	}
	m.m[key] = v
	return v, nil
}
