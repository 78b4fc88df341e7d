package expiry

import (
	"iter"
	"slices"
	"sync"
	"time"

	"kelson.dev/apiserver/store"
)

// entry is a write that has not expired yet.
type entry struct {
	key      store.Key
	revision uint64
	due      time.Time
}

// queue holds the entries in the order in which they are due. It is safe for concurrent use.
type queue struct {
	wake chan struct{} // receives a value when the first entry may have changed; capacity 1

	mu      sync.Mutex
	entries []entry
}

// begin replaces all entries. No entry is due later than a lifetime from now: objects whose
// creation is in the future were written before the clock was set back. Later changes of the clock
// have no effect, because all due times have a monotonic clock reading.
func (q *queue) begin(objects iter.Seq[*store.Object], lifetime time.Duration) {
	var entries []entry
	now := time.Now()
	for obj := range objects {
		left := min(obj.Head.CreationTimestamp.Add(lifetime).Sub(now), lifetime)
		entries = append(entries, entry{obj.Key, obj.Revision, now.Add(left)})
	}
	slices.SortFunc(entries, func(a, b entry) int { return a.due.Compare(b.due) })
	q.mu.Lock()
	defer q.mu.Unlock()
	q.entries = entries
	q.signal()
}

// add adds the writes among events. They are due after all earlier entries.
func (q *queue) add(events []*store.Event, due time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	empty := len(q.entries) == 0
	for _, e := range events {
		if e.Type != store.Deleted {
			q.entries = append(q.entries, entry{e.Object.Key, e.Revision(), due})
		}
	}
	if empty {
		q.signal()
	}
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// due removes and returns the entries that are due, and when the next one is; zero means never.
func (q *queue) due(now time.Time) (due []entry, next time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.entries) && !q.entries[n].due.After(now) {
		n++
	}
	due = slices.Clone(q.entries[:n])
	if q.entries = q.entries[n:]; len(q.entries) > 0 {
		next = q.entries[0].due
	}
	return due, next
}
