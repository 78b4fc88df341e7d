package store

import (
	"slices"
	"time"
)

// pin is a Snapshot that At must still find.
type pin struct {
	snapshot *Snapshot
	until    time.Time
	// replaced is the Store's count when the pin began.
	replaced uint64
}

const (
	pinFor  = 5 * time.Minute
	maxPins = 1024
	// maxPinned bounds the bytes of replaced and deleted objects that pins keep in memory.
	maxPinned = 256 << 20
	// objectBytes is the memory that an object needs in addition to its data.
	objectBytes = 512
)

func (s *Store) at(revision uint64) (*Snapshot, error) {
	kept, newest, undo, err := s.retained(revision)
	if kept != nil || err != nil {
		return kept, err
	}
	sn := &Snapshot{revision: revision, view: newest.copyView(), retain: newest.retain}
	for _, events := range slices.Backward(undo) {
		for _, e := range slices.Backward(events) {
			sn.view.undo(e)
		}
	}
	return sn, nil
}

// retained returns the state at a revision if it is available, or else the newest state and the
// events to undo in it.
func (s *Store) retained(revision uint64) (kept, newest *Snapshot, undo [][]*Event, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	newest = s.current.Load()
	if revision > newest.revision {
		return nil, nil, nil, ErrFuture
	}
	if revision == newest.revision {
		return newest, nil, nil, nil
	}
	for _, p := range s.pins {
		if p.snapshot.revision == revision {
			return p.snapshot, nil, nil, nil
		}
	}
	all := s.logs[""]
	if all == nil || revision < all.floor {
		return nil, nil, nil, ErrCompacted
	}
	for after := revision; after < newest.revision; {
		events, _ := all.since(after)
		undo = append(undo, events)
		after = events[len(events)-1].Revision()
	}
	return nil, newest, undo, nil
}

func (s *Store) pinned(revision uint64) (*Snapshot, error) {
	s.mu.Lock()
	s.unpin(time.Now())
	atRevision := func(p pin) bool { return p.snapshot.revision == revision }
	gone := revision <= s.lapsed && revision < s.current.Load().revision && !slices.ContainsFunc(s.pins, atRevision)
	s.mu.Unlock()
	if gone {
		return nil, ErrCompacted
	}
	return s.at(revision)
}

func (s *Store) pin(sn *Snapshot) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unpin(now)
	if slices.ContainsFunc(s.pins, func(p pin) bool { return p.snapshot.revision == sn.revision }) {
		return
	}
	if len(s.pins) >= maxPins {
		s.pins = slices.Delete(s.pins, 0, 1)
	}
	s.pins = append(s.pins, pin{sn, now.Add(pinFor), s.replaced})
}

// unpin removes expired pins, and the oldest ones if pins keep too much in memory. Pins are in the
// order of their expiry. The objects that were replaced since the oldest pin began are at least
// those that only pins keep.
func (s *Store) unpin(now time.Time) {
	n := 0
	for n < len(s.pins) && (s.pins[n].until.Before(now) || s.replaced-s.pins[n].replaced > maxPinned) {
		s.lapsed = max(s.lapsed, s.pins[n].snapshot.revision)
		n++
	}
	s.pins = slices.Delete(s.pins, 0, n)
}
