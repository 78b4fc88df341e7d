package store

// Cursor reads the events of one resource, or of all, in revision order, each exactly once. A
// Cursor must not be used concurrently. It need not be closed.
//
//	for {
//		events, _, err := cursor.Next()
//		… deliver events …
//		select {
//		case <-cursor.Ready():
//		case <-ctx.Done():
//		}
//	}
type Cursor struct {
	store *Store
	log   *eventLog
	after uint64 // events up to this revision were returned or skipped
	head  bool   // the last call of Next returned no events

	// Guarded by the audience of the log.
	member      int    // the place among its members, from 1; 0: none
	delivered   uint64 // of a member: the revision up to which it has delivered all events
	absence     int    // how many more times it must be at the head before it becomes a member
	nextAbsence int    // the value of absence after the next wait for it that times out
}

// Next returns the events since the last call, possibly none, without blocking, and the revision up
// to which it has now returned all events (for bookmarks). It returns ErrCompacted if the log no
// longer has the next event; events are never skipped silently. It returns ErrClosed after
// Store.Close, after the last event. The slice is valid until the next call.
//
// If many events are pending, they may come in several calls; Ready is closed meanwhile. The events
// of one Commit are never divided.
func (c *Cursor) Next() (events []*Event, revision uint64, err error) {
	s := c.store
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c.after < c.log.floor {
		return nil, 0, &CompactedError{c.log.floor}
	}
	events, all := c.log.since(c.after)
	if s.closed && len(events) == 0 {
		return nil, 0, ErrClosed
	}
	c.head = len(events) == 0
	if all {
		c.after = max(c.after, s.current.Load().revision)
	} else {
		c.after = events[len(events)-1].Revision()
	}
	return events, c.after, nil
}

// Ready returns a channel that is closed when Next has events or an error to return. Call it after
// Next has returned nothing. A cursor that begins at a future revision may be woken early.
func (c *Cursor) Ready() <-chan struct{} {
	s := c.store
	s.mu.RLock()
	now, wait := c.readiness()
	s.mu.RUnlock()
	if now || wait != nil {
		return pick(now, s.ready, wait)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, wait = c.readiness(); !now && wait == nil {
		wait = make(chan struct{})
		c.log.waiters = wait
	}
	return pick(now, s.ready, wait)
}

func (c *Cursor) readiness() (now bool, wait chan struct{}) {
	now = c.store.closed || c.after < c.log.floor || c.log.newest() > c.after
	return now, c.log.waiters
}

func pick(first bool, a, b chan struct{}) <-chan struct{} {
	if first {
		return a
	}
	return b
}

func (s *Store) watch(resource string, after uint64) (*Cursor, error) {
	s.mu.RLock()
	l, closed := s.logs[resource], s.closed
	s.mu.RUnlock()
	if closed {
		return nil, ErrClosed
	}
	if l == nil {
		s.mu.Lock()
		l = s.eventLogFor(resource)
		s.mu.Unlock()
	}
	c := &Cursor{store: s, log: l, after: after}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if after < l.floor {
		return nil, &CompactedError{l.floor}
	}
	c.head = after >= l.newest()
	return c, nil
}
