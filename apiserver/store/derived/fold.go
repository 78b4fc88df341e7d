package derived

import (
	"errors"
	"fmt"
	"sync"

	"kelson.dev/apiserver/store"
)

// Fold keeps a value that its owner changes event by event, where to compute it anew after each write would be too dear. There is no
// goroutine: who reads the value takes in first what was written since the last time. So it is never behind, and costs nothing while
// nobody asks.
//
//	f := typed.NewFold(st, idx.begin, idx.take, "roles.rbac.authorization.k8s.io", …)
//	if err := f.RLock(); err != nil { … }
//	defer f.RUnlock()
//	… read idx …
type Fold struct {
	store     *store.Store
	resources []string
	begin     func(*store.Snapshot)
	take      func(*store.Event)

	mu      sync.RWMutex
	begun   bool
	known   uint64 // every write up to this revision is in the value
	cursors []*store.Cursor
}

// NewFold returns a fold over resources as in [store.Key]. Begin makes the value of a state, at the first reading and whenever events
// are missed; take changes it by one event. Both have it for themselves while they run. Events of one resource come in order.
func NewFold(st *store.Store, begin func(*store.Snapshot), take func(*store.Event), resources ...string) *Fold {
	return &Fold{store: st, resources: resources, begin: begin, take: take}
}

// RLock brings the value up to every write that was acknowledged before the call, and holds it for reading. With an error, which a
// closed store may give, it is not held.
func (f *Fold) RLock() error {
	changed := f.store.Changed(f.resources...)
	f.mu.RLock()
	for !f.begun || f.known < changed {
		f.mu.RUnlock()
		if err := f.catchUp(); err != nil {
			return err
		}
		f.mu.RLock()
	}
	return nil
}

// RUnlock ends a reading.
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
	f.begun, f.known = true, sn.Revision()
	return nil
}

// drain takes in all events there are; false: some are gone.
func (f *Fold) drain() bool {
	known := ^uint64(0)
	for _, cursor := range f.cursors {
		for {
			events, upTo, err := cursor.Next()
			if errors.Is(err, store.ErrClosed) {
				break // nothing will ever change
			}
			if err != nil {
				return false
			}
			if len(events) == 0 {
				known = min(known, upTo)
				break
			}
			for _, e := range events {
				f.take(e)
			}
		}
	}
	f.known = known
	return true
}
