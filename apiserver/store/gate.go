package store

import "context"

// Gate makes every later Commit call wait, in the caller's goroutine, before the unit is queued.
// Commit returns the error of wait, and nothing is written then. nil ends this. A program that
// searches for rare orders of events decides with it which of several concurrent writes comes
// first. wait is called concurrently. Callers of Commit may hold locks, so wait must not depend on
// progress of other writers.
func (s *Store) Gate(wait func(ctx context.Context, ops []Op) error) {
	if wait == nil {
		s.gate.Store(nil)
		return
	}
	s.gate.Store(&wait)
}
