package store

// Inspect makes the store call the function look after each publication, with the new state and the
// events that led to it. Readers can already see both; writers do not have their result yet. Calls
// do not overlap, and the store publishes nothing more until look returns. Inspect returns the
// state before the first call. A store over a [Shared] also reports states without
// events in two cases: when other clients wrote to other parts of the log, and when the store lost
// history, as Compacted shows. A nil look stops the calls.
//
// It is for tests of the guarantees to watchers; see [kelson.dev/apiserver/store/storetest.Guard].
func (s *Store) Inspect(look func(now *Snapshot, events []*Event)) *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inspect = look
	return s.current.Load()
}
