package derived

import (
	"errors"
	"fmt"
	"sync"

	"kelson.dev/apiserver/store"
)

// Fold holds a value that is computed from the objects of some resources. It updates the value
// event by event, because computing it after every write would be too expensive. A Fold runs no
// goroutine: each reader first applies the events since the last read. So the value is never stale,
// and an unused Fold costs nothing.
//
//	f := derived.NewFold(st, idx.begin, idx.take, "roles.rbac.authorization.k8s.io", …)
//	if err := f.RLock(); err != nil { … }
//	defer f.RUnlock()
//	… read idx …
type Fold struct {
	store     *store.Store
	resources []string
	begin     func(*store.Snapshot)
	take      func(*store.Event)

	mu       sync.RWMutex
	begun    bool
	revision uint64 // the value includes every write up to this revision
	cursors  []*store.Cursor
}

// NewFold returns a Fold over resources, named as in [store.Key]. begin computes the value from a
// state; the Fold calls it at the first read, and again if the store no longer retains events that
// it needs. take updates the value with one event. Both have exclusive access to the value. Events
// of one resource come in order.
func NewFold(st *store.Store, begin func(*store.Snapshot), take func(*store.Event), resources ...string) *Fold {
	return &Fold{store: st, resources: resources, begin: begin, take: take}
}

// RLock updates the value to include every write acknowledged before the call, and locks it for
// reading. If it returns an error, which it may do after the store was closed, the value is not
// locked.
func (f *Fold) RLock() error {
	changed := f.store.Changed(f.resources...)
	f.mu.RLock()
	for !f.begun || f.revision < changed {
		f.mu.RUnlock()
		if err := f.catchUp(); err != nil {
			return err
		}
		f.mu.RLock()
	}
	return nil
}

// RUnlock unlocks the value.
func (f *Fold) RUnlock() { f.mu.RUnlock() }

func (f *Fold) catchUp() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun && f.drain() {
		return nil
	}
	f.begun = false
	sn := f.store.Snapshot()
	f.cursors = f.cursors[:0]
	for _, resource := range f.resources {
		cursor, err := f.store.Watch(resource, sn.Revision())
		if err != nil {
			return fmt.Errorf("follow %s: %w", resource, err)
		}
		f.cursors = append(f.cursors, cursor)
	}
	f.begin(sn)
	f.begun, f.revision = true, sn.Revision()
	return nil
}

// drain applies all pending events. It returns false if some are no longer retained.
func (f *Fold) drain() bool {
	revision := ^uint64(0)
	for _, cursor := range f.cursors {
		for {
			events, upTo, err := cursor.Next()
			if errors.Is(err, store.ErrClosed) {
				break // no more writes
			}
			if err != nil {
				return false
			}
			if len(events) == 0 {
				revision = min(revision, upTo)
				break
			}
			for _, e := range events {
				f.take(e)
			}
		}
	}
	f.revision = revision
	return true
}
