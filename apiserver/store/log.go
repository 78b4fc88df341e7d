package store

import (
	"slices"
	"sort"
	"strings"
	"time"
)

// eventLog keeps the newest events of one resource, or of all resources, in chunks:
//
//	floor │ chunk  chunk  chunk  chunk→
//	      └ all events above floor are here, in revision order; chunks are dropped as a whole
//
// Events are only appended, never changed, so readers may keep slices of a chunk. A Commit is never
// divided between chunks. Guarded by Store.mu.
type eventLog struct {
	floor   uint64 // the revision up to which events may be missing
	chunks  []*chunk
	length  int           // number of events in all chunks
	bytes   int64         // their memory, also if another log has them too
	waiters chan struct{} // closed by the next append; nil if no cursor waits
	open    bool          // begin was called for the current batch

	audience audience // has its own lock
}

type chunk struct {
	events []*Event
	bytes  int64
	sealed bool // the memos were discarded, or will be
}

const (
	// maxChunk is the number of events in a chunk, and chunkBytes their memory, unless one Commit
	// has more.
	maxChunk   = 256
	chunkBytes = 1 << 20
	// A log keeps its newest minKept events, or minBytes of them, and always its newest chunk,
	// whatever the budget is. Readers that follow live need these: a write waits until they have
	// delivered the events of earlier writes (see AwaitDelivery), so they are behind by about as
	// many events as there are writers.
	minKept  = 256
	minBytes = 1 << 20
)

// chunkSize returns the number of events in a chunk of a log that keeps a number of events.
func chunkSize(retain int) int { return min(max(retain/8, 1), maxChunk) }

// full reports whether a chunk gets no more events.
func (c *chunk) full(retain int) bool {
	return len(c.events) >= chunkSize(retain) || c.bytes >= chunkBytes
}

func (c *chunk) last() uint64 { return c.events[len(c.events)-1].Revision() }

// sealEvents discards the encodings that current readers share. Later readers make their own.
func (b *budget) sealEvents(events []*Event) {
	for _, e := range events {
		e.memo.seal(e.Object.budget)
		if e.Prev != nil {
			b.seal(e.Prev)
		}
		if e.Type == Deleted {
			b.seal(e.Object)
		}
	}
}

// seal discards the memo of an object that is not in the state any more. Objects of another store,
// from which this one was forked, may still be in that store's state.
func (b *budget) seal(obj *Object) {
	if obj.budget == b {
		obj.memo.seal(b)
	}
}

// since returns events after a revision, at least those of one chunk, and whether these are all.
func (l *eventLog) since(after uint64) (events []*Event, all bool) {
	i := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].last() > after })
	if i == len(l.chunks) {
		return nil, true
	}
	events = l.chunks[i].events
	first := sort.Search(len(events), func(i int) bool { return events[i].Revision() > after })
	return events[first:len(events):len(events)], i == len(l.chunks)-1
}

// newest returns the revision of the newest event, or floor if there is none.
func (l *eventLog) newest() uint64 {
	if len(l.chunks) == 0 {
		return l.floor
	}
	return l.chunks[len(l.chunks)-1].last()
}

// begin prepares for the events of one batch. It reports whether it starts a new chunk. Then it
// also returns a chunk that all readers have probably passed, or nil.
func (l *eventLog) begin(retain int) (started bool, read *chunk) {
	n := len(l.chunks)
	if n > 0 && !l.chunks[n-1].full(retain) {
		return false, nil
	}
	l.chunks = append(l.chunks, &chunk{})
	if n >= 2 && !l.chunks[n-2].sealed {
		l.chunks[n-2].sealed = true
		return true, l.chunks[n-2]
	}
	return true, nil
}

func (l *eventLog) append(e *Event) {
	c := l.chunks[len(l.chunks)-1]
	c.events = append(c.events, e)
	e.kept++
	size := e.bytes()
	c.bytes += size
	l.bytes += size
	l.length++
}

// excess reports whether the oldest chunk is beyond the number of events to retain.
func (l *eventLog) excess(retain int) bool {
	return len(l.chunks) > 1 && l.length-len(l.chunks[0].events) >= retain
}

// evictable reports whether the log has more than its minimum without the oldest chunk.
func (l *eventLog) evictable() bool {
	return len(l.chunks) > 1 && (l.length-len(l.chunks[0].events) >= minKept || l.bytes-l.chunks[0].bytes >= minBytes)
}

// drop removes the oldest chunk and returns it.
func (l *eventLog) drop() *chunk {
	first := l.chunks[0]
	l.floor = max(l.floor, first.last())
	l.length -= len(first.events)
	l.bytes -= first.bytes
	l.chunks[0] = nil // the slice keeps its array; release the chunk
	l.chunks = l.chunks[1:]
	return first
}

// compact removes events up to a revision, and calls forget with them.
func (l *eventLog) compact(revision uint64, forget func([]*Event)) {
	for len(l.chunks) > 0 && l.chunks[0].last() <= revision {
		forget(l.drop().events)
	}
	l.floor = max(l.floor, revision)
	if len(l.chunks) == 0 || l.chunks[0].events[0].Revision() > revision {
		return
	}
	old := l.chunks[0]
	rest, _ := l.since(revision)
	// readers may keep slices of the old chunk
	c := &chunk{events: slices.Clone(rest), sealed: old.sealed}
	for _, e := range rest {
		c.bytes += e.bytes()
	}
	forget(old.events[:len(old.events)-len(rest)])
	l.length -= len(old.events) - len(c.events)
	l.bytes -= old.bytes - c.bytes
	l.chunks[0] = c
}

// takeWaiters appends the channel to close, if a cursor waits for it.
func (l *eventLog) takeWaiters(to waiters) waiters {
	if l.waiters == nil {
		return to
	}
	to = append(to, l.waiters)
	l.waiters = nil
	return to
}

// eventLogFor returns the log of a resource. The caller holds mu for writing.
func (s *Store) eventLogFor(resource string) *eventLog {
	l := s.logs[resource]
	if l == nil {
		l = &eventLog{floor: s.base}
		s.logs[strings.Clone(resource)] = l
	}
	return l
}

// publish makes a state, and the events that led to it, visible to all readers at once. The caller
// then closes wake.
func (s *Store) publish(sn *Snapshot, events []*Event) (wake waiters) {
	if s.check != nil {
		s.check(sn, events)
	}
	var open []*eventLog
	var read []*chunk
	add := func(l *eventLog, e *Event) {
		if !l.open {
			l.open = true
			open = append(open, l)
			started, c := l.begin(s.retain)
			s.minimal = s.minimal && !started
			if c != nil && l != s.logs[""] {
				read = append(read, c) // the log of all resources has the same events
			}
		}
		l.append(e)
	}

	s.mu.Lock()
	s.current.Store(sn)
	added := int64(0)
	for _, e := range events {
		add(s.eventLogFor(""), e)
		add(s.eventLogFor(e.Object.Key.Resource), e)
		added += e.bytes()
	}
	s.budget.logs.Add(added)
	s.budget.resize(sn.view.bytes)
	for _, l := range open {
		l.open = false
		for l.excess(s.retain) {
			s.forget(l.drop().events)
		}
		wake = l.takeWaiters(wake)
	}
	if len(s.pins) > 0 {
		s.unpin(time.Now())
	}
	s.trim()
	inspect := s.inspect
	s.mu.Unlock()

	for _, c := range read {
		s.budget.sealEvents(c.events)
	}
	s.budget.evictMemos()
	if inspect != nil {
		inspect(sn, events)
	}
	return wake
}

// forget is called with events that a log does not have any more. The caller holds mu.
func (s *Store) forget(events []*Event) {
	freed := int64(0)
	for i, e := range events {
		if e.kept--; e.kept > 0 {
			continue
		}
		freed += e.bytes()
		s.hold(e)
		s.budget.sealEvents(events[i : i+1])
	}
	s.budget.logs.Add(-freed)
}

// trimHistory is trim for callers that do not hold mu. If another goroutine holds it, the next
// publication trims.
func (s *Store) trimHistory() {
	if s.mu.TryLock() {
		defer s.mu.Unlock()
		s.trim()
	}
}

// trim evicts history until it fits the budget. Cursors that need dropped events get ErrCompacted;
// those that wait have passed them. The caller holds mu.
func (s *Store) trim() {
	b := s.budget
	for b.history() > b.forHistory() {
		switch {
		case b.pages.Load() > 0 && (b.pages.Load() > b.logs.Load() || s.minimal):
			s.endPins(1)
			b.evicted.pages.Add(1)
		case s.minimal:
			return
		default:
			l := s.largest()
			if l == nil {
				s.minimal = true
				continue
			}
			c := l.drop()
			b.evicted.logs.Add(uint64(len(c.events)))
			s.forget(c.events)
		}
	}
}

// largest returns the log that has the most of the logs that may be evicted, or nil.
func (s *Store) largest() (most *eventLog) {
	for _, l := range s.logs {
		if (most == nil || l.bytes > most.bytes) && l.evictable() {
			most = l
		}
	}
	return most
}

// waiters are channels to close, one per log, to wake cursors.
type waiters []chan struct{}

func (w waiters) close() {
	for _, ch := range w {
		close(ch)
	}
}
