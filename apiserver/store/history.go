package store

import (
	"cmp"
	"slices"
	"time"
)

// pin is a Snapshot that At must still find.
type pin struct {
	snapshot *Snapshot
	until    time.Time
	// held is the size of the objects that are in no log any more, and in no newer pin.
	held int64
}

const (
	pinFor  = 5 * time.Minute
	maxPins = 1024
)

func (s *Store) at(revision uint64) (*Snapshot, error) {
	kept, newest, undo, err := s.retained(revision)
	if kept != nil || err != nil {
		return kept, err
	}
	sn := &Snapshot{revision: revision, view: newest.copyView(), config: newest.config}
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
	i, found := s.findPin(sn.revision)
	if found {
		return
	}
	s.pins = slices.Insert(s.pins, i, pin{snapshot: sn, until: now.Add(pinFor)})
	if len(s.pins) > maxPins {
		s.endPins(1)
	}
}

// findPin returns the index of the first pin of at least a revision, and whether it is the
// revision's.
func (s *Store) findPin(revision uint64) (int, bool) {
	return slices.BinarySearchFunc(s.pins, revision, func(p pin, r uint64) int {
		return cmp.Compare(p.snapshot.revision, r)
	})
}

// unpin removes expired pins. The order of revisions is also that of expiry, but for pins that
// began at the same time.
func (s *Store) unpin(now time.Time) {
	n := 0
	for n < len(s.pins) && s.pins[n].until.Before(now) {
		n++
	}
	s.endPins(n)
}

// endPins removes the oldest pins.
func (s *Store) endPins(n int) {
	for _, p := range s.pins[:n] {
		s.lapsed = max(s.lapsed, p.snapshot.revision)
		s.budget.pages.Add(-p.held)
	}
	s.pins = slices.Delete(s.pins, 0, n)
}

// hold counts the object that an event has replaced, and that is in no log any more, as an object
// of the newest pin that has it: older pins end earlier.
func (s *Store) hold(e *Event) {
	if e.Prev == nil || len(s.pins) == 0 {
		return
	}
	if i, _ := s.findPin(e.Revision()); i > 0 && s.pins[i-1].snapshot.revision >= e.Prev.Revision {
		s.pins[i-1].held += e.Prev.bytes()
		s.budget.pages.Add(e.Prev.bytes())
	}
}
