package store

// Compact removes the history up to a revision: from now on, At of an older revision, Watch after
// an older one, and cursors that have not reached it return ErrCompacted. The state itself does not
// change. It returns ErrFuture if no write has the revision yet. Calling it is optional: Config
// bounds the watch log.
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
		l.compact(revision, s.forget)
		wake = l.takeWaiters(wake)
	}
	s.base = max(s.base, revision)
	older, _ := s.findPin(revision)
	s.endPins(older)
	s.lapsed = max(s.lapsed, revision-1)
	wake.close()
	return nil
}

// Compacted returns the newest revision whose history may be missing; 0 if the history is complete.
func (s *Store) Compacted() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if all := s.logs[""]; all != nil {
		return max(all.floor, s.base)
	}
	return s.base
}
