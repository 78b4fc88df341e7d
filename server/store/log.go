package store

import (
	"sort"
	"strings"
	"time"
)

// eventLog keeps the newest events of one resource, or of all, in chunks:
//
//	floor │ chunk  chunk  chunk  chunk→
//	      └ events above floor are here, in revision order; a chunk is dropped as a whole
//
// Events are appended behind what readers have been given, never changed, so readers may keep slices of a chunk.
// A Commit is never divided between chunks. Guarded by Store.mu.
type eventLog struct {
	floor   uint64 // the revision up to which events may be missing
	chunks  []*chunk
	length  int
	waiters chan struct{} // closed by the next append; nil when nobody waits
	open    bool          // in the batch that is being appended
}

type chunk struct{ events []*Event }

func (c *chunk) last() uint64 { return c.events[len(c.events)-1].Revision() }

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

// newest returns the revision of the newest event, or the floor.
func (l *eventLog) newest() uint64 {
	if len(l.chunks) == 0 {
		return l.floor
	}
	return l.chunks[len(l.chunks)-1].last()
}

// begin prepares for the events of one batch.
func (l *eventLog) begin(retain int) {
	size := min(max(retain/8, 1), 256)
	if n := len(l.chunks); n == 0 || len(l.chunks[n-1].events) >= size {
		l.chunks = append(l.chunks, &chunk{})
	}
}

func (l *eventLog) append(e *Event) {
	c := l.chunks[len(l.chunks)-1]
	c.events = append(c.events, e)
	l.length++
}

// trim drops whole chunks while retain events remain.
func (l *eventLog) trim(retain int) {
	for l.length-len(l.chunks[0].events) >= retain {
		l.floor = l.chunks[0].last()
		l.length -= len(l.chunks[0].events)
		l.chunks[0] = nil // the slice lives on, its memory must not
		l.chunks = l.chunks[1:]
	}
}

// takeWaiters appends the channel to close, if somebody waits on it.
func (l *eventLog) takeWaiters(to []chan struct{}) []chan struct{} {
	if l.waiters == nil {
		return to
	}
	to = append(to, l.waiters)
	l.waiters = nil
	return to
}

// log returns the log of a resource. The caller holds mu for writing.
func (s *Store) log(resource string) *eventLog {
	l := s.logs[resource]
	if l == nil {
		l = &eventLog{floor: s.base}
		s.logs[strings.Clone(resource)] = l
	}
	return l
}

// publish shows the committer's state, and the events that led to it, to all readers at once.
func (s *Store) publish(events []*Event) {
	sn := s.freeze()
	if s.check != nil {
		s.check(sn, events)
	}
	var wake []chan struct{}
	var open []*eventLog
	add := func(l *eventLog, e *Event) {
		if !l.open {
			l.open = true
			open = append(open, l)
			l.begin(s.retain)
		}
		l.append(e)
	}

	s.mu.Lock()
	s.current.Store(sn)
	for _, e := range events {
		add(s.log(""), e)
		add(s.log(e.Object.Key.Resource), e)
	}
	for _, l := range open {
		l.open = false
		l.trim(s.retain)
		wake = l.takeWaiters(wake)
	}
	if len(s.pins) > 0 {
		s.unpin(time.Now())
	}
	s.mu.Unlock()

	for _, ch := range wake {
		close(ch)
	}
}
