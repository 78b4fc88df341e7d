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
	bytes   int           // size of their objects
	waiters chan struct{} // closed by the next append; nil if no cursor waits
	open    bool          // begin was called for the current batch

	audience audience // has its own lock
}

type chunk struct {
	events []*Event
	bytes  int
}

// retention is how many events, and bytes of their objects, a log keeps.
type retention struct{ events, bytes int }

// chunkSize is the number of events in a chunk, unless one Commit has more.
func (r retention) chunkSize() int { return min(max(r.events/8, 1), 256) }

func (c *chunk) last() uint64 { return c.events[len(c.events)-1].Revision() }

// seal discards the encodings that current readers share. Later readers make their own.
func (c *chunk) seal() {
	for _, e := range c.events {
		e.memo.seal()
		if e.Prev != nil {
			e.Prev.memo.seal()
		}
		if e.Type == Deleted {
			e.Object.memo.seal()
		}
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

// begin prepares for the events of one batch. When it starts a new chunk, it returns a chunk that
// all readers have probably passed, or nil.
func (l *eventLog) begin(keep retention) (read *chunk) {
	if n := len(l.chunks); n == 0 || len(l.chunks[n-1].events) >= keep.chunkSize() {
		l.chunks = append(l.chunks, &chunk{})
		if n >= 2 {
			return l.chunks[n-2]
		}
	}
	return nil
}

func (l *eventLog) append(e *Event) {
	c := l.chunks[len(l.chunks)-1]
	c.events = append(c.events, e)
	size := len(e.Object.Data)
	c.bytes += size
	l.bytes += size
	l.length++
}

// trim drops the oldest chunks that keep does not require.
func (l *eventLog) trim(keep retention) {
	for len(l.chunks) > 1 && (l.length-len(l.chunks[0].events) >= keep.events ||
		l.bytes > keep.bytes && l.length-len(l.chunks[0].events) >= keep.chunkSize()) {
		l.drop()
	}
}

// drop removes the oldest chunk.
func (l *eventLog) drop() {
	first := l.chunks[0]
	l.floor = max(l.floor, first.last())
	l.length -= len(first.events)
	l.bytes -= first.bytes
	l.chunks[0] = nil // the slice keeps its array; release the chunk
	l.chunks = l.chunks[1:]
}

// compact removes events up to a revision.
func (l *eventLog) compact(revision uint64) {
	for len(l.chunks) > 0 && l.chunks[0].last() <= revision {
		l.drop()
	}
	l.floor = max(l.floor, revision)
	if len(l.chunks) == 0 || l.chunks[0].events[0].Revision() > revision {
		return
	}
	rest, _ := l.since(revision)
	c := &chunk{events: slices.Clone(rest)} // readers may keep slices of the old chunk
	for _, e := range rest {
		c.bytes += len(e.Object.Data)
	}
	l.length -= len(l.chunks[0].events) - len(c.events)
	l.bytes -= l.chunks[0].bytes - c.bytes
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
			if c := l.begin(s.retain); c != nil && l != s.logs[""] {
				read = append(read, c) // the log of all resources has the same events
			}
		}
		l.append(e)
	}

	s.mu.Lock()
	s.current.Store(sn)
	for _, e := range events {
		add(s.eventLogFor(""), e)
		add(s.eventLogFor(e.Object.Key.Resource), e)
		if e.Prev != nil {
			s.replaced += uint64(len(e.Prev.Data)) + objectBytes
		}
	}
	for _, l := range open {
		l.open = false
		l.trim(s.retain)
		wake = l.takeWaiters(wake)
	}
	if len(s.pins) > 0 {
		s.unpin(time.Now())
	}
	inspect := s.inspect
	s.mu.Unlock()

	for _, c := range read {
		c.seal()
	}
	if inspect != nil {
		inspect(sn, events)
	}
	return wake
}

// waiters are channels to close, one per log, to wake cursors.
type waiters []chan struct{}

func (w waiters) close() {
	for _, ch := range w {
		close(ch)
	}
}
