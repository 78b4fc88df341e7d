package store

import "slices"

// Compact forgets the history up to a revision: At of an older one, Watch after an older one, and cursors that have not come so far, give
// ErrCompacted from now on. The state itself stays. ErrFuture when the revision was not given yet.
// Nobody needs to call it: the watch log is bounded by Config.
func (s *Store) Compact(revision uint64) error {
	if revision == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision > s.current.Load().revision {
		return ErrFuture
	}
	var wake waiters
	for _, l := range s.logs {
		l.compact(revision)
		wake = l.takeWaiters(wake)
	}
	s.base = max(s.base, revision)
	s.pins = slices.DeleteFunc(s.pins, func(p pin) bool { return p.snapshot.revision < revision })
	s.lapsed = max(s.lapsed, revision-1)
	wake.close()
	return nil
}

// Compacted returns the newest revision whose history may be missing; 0 when everything is there.
func (s *Store) Compacted() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if all := s.logs[""]; all != nil {
		return max(all.floor, s.base)
	}
	return s.base
}
