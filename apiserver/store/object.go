package store

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Object is one revision of one stored object. It is shared by all readers and never changes.
type Object struct {
	// Data is the object in its storage version, as JSON. Never change it.
	Data []byte
	// Revision is that of the write that made this state; it stands in Data as metadata.resourceVersion.
	Revision uint64
	// Created is the revision of the write that created the object.
	Created uint64
	Key     Key
	Head    Head

	path    string // of Key, which consists of its parts
	version span   // of the resourceVersion's value in Data
	memo    memo
}

// Head is what the control plane needs to know of any object without decoding it.
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

// Memo returns what make returned the first time Memo was called with this key on this object. It is how an encoding, or the
// decoded form, of one revision is made once and shared. Safe for concurrent use; an error is not kept.
// What is kept of a revision that was replaced is given up after some hundred more writes to its resource.
func (o *Object) Memo(key any, make func() (any, error)) (any, error) { return o.memo.get(key, make) }

// memo is a small lazily made map.
type memo struct {
	mu     sync.Mutex
	m      map[any]any
	sealed bool
}

// seal forgets what was kept and keeps nothing more.
func (m *memo) seal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.m, m.sealed = nil, true
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
