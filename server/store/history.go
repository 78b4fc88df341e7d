package store

import (
	"slices"
	"time"
)

// pin is a Snapshot that At must find.
type pin struct {
	snapshot *Snapshot
	until    time.Time
}

const (
	pinFor  = 5 * time.Minute
	maxPins = 1024
)

func (s *Store) at(revision uint64) (*Snapshot, error) {
	s.mu.RLock()
	newest := s.current.Load()
	if revision > newest.revision {
		s.mu.RUnlock()
		return nil, ErrFuture
	}
	if revision == newest.revision {
		s.mu.RUnlock()
		return newest, nil
	}
	i := slices.IndexFunc(s.pins, func(p pin) bool { return p.snapshot.revision == revision })
	if i >= 0 {
		defer s.mu.RUnlock()
		return s.pins[i].snapshot, nil
	}
	all := s.logs[""]
	if revision < s.base || all == nil || revision < all.floor {
		s.mu.RUnlock()
		return nil, ErrCompacted
	}
	var undo [][]*Event
	for after, last := revision, false; !last; {
		var events []*Event
		events, last = all.since(after)
		if len(events) > 0 {
			undo = append(undo, events)
			after = events[len(events)-1].Revision()
		}
	}
	s.mu.RUnlock()

	newest.forking.Lock()
	v := newest.view.copy()
	newest.forking.Unlock()
	for _, events := range slices.Backward(undo) {
		for _, e := range slices.Backward(events) {
			v.undo(e)
		}
	}
	return &Snapshot{revision: revision, view: v, retain: newest.retain}, nil
}

func (s *Store) pin(sn *Snapshot) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pins = slices.DeleteFunc(s.pins, func(p pin) bool { return p.snapshot.revision == sn.revision })
	if len(s.pins) >= maxPins {
		s.pins = slices.Delete(s.pins, 0, 1)
	}
	s.pins = append(s.pins, pin{sn, now.Add(pinFor)})
	s.unpin(now)
}

// unpin forgets what was pinned long enough. Pins are in the order in which they end.
func (s *Store) unpin(now time.Time) {
	n := 0
	for n < len(s.pins) && s.pins[n].until.Before(now) {
		n++
	}
	s.pins = slices.Delete(s.pins, 0, n)
}
