package store

// Inspect has look called with everything that is published from now on, one publication after the other: with the new state and the
// events that led to it, when both can be read and before the writers are answered. Nothing more is published until it returns. It
// returns the state before the first of these. A follower of a Shared also shows states without events: when others wrote elsewhere
// in the log, and when history was lost, which Compacted tells. nil ends it.
//
// It is for tests that hold a store to what it promises its watchers; see [kelson.dev/apiserver/store/storetest.Guard].
func (s *Store) Inspect(look func(now *Snapshot, events []*Event)) *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inspect = look
	return s.current.Load()
}
