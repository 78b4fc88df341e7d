package store

import "context"

// Gate makes every later Commit call wait, in the caller's goroutine, before the unit is queued.
// If wait returns an error, Commit writes nothing and returns that error. A nil wait removes the
// gate. A program that searches for rare orders of events uses a gate to decide which of several
// concurrent writes comes first. Gate calls wait concurrently. Callers of Commit may hold locks, so
// wait must not depend on progress of other writers.
func (s *Store) Gate(wait func(ctx context.Context, ops []Op) error) {
	if wait == nil {
		s.gate.Store(nil)
		return
	}
	s.gate.Store(&wait)
}
