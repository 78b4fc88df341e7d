package storetest

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"kelson.dev/apiserver/store"
)

// Guard holds a store, at each of its publications until the test ends, to what watches are
// promised, in the words of etcd's robustness tests:
//
//	ordered       events come in the order of their revisions
//	unique        no event comes twice
//	reliable      no event between others is missing
//	atomic        those of one unit come together
//	filterable    a watch of a resource has the same events as that of all, but for other resources'
//	resumable     a new watch after any revision continues there, or gets an error
//	bookmarkable  what a cursor says it has come to, it has come to
//
// and every event to the state: what it says was before was before, and what it says is now is now.
// The reference is what the store publishes; watchers of the guard's own read along, more or less
// lazily. It must not be used with a store that others compact while their cursors are read, unless
// they expect ErrCompacted themselves.
func Guard(t testing.TB, s *store.Store) {
	g := newGuard(t, s)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.restart(s.Inspect(g.published))
	t.Cleanup(func() {
		s.Inspect(nil)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ended = true
	})
}

func newGuard(t testing.TB, s *store.Store) *guard {
	g := &guard{t: t, store: s, rand: rand.New(rand.NewPCG(1, 2)), watchers: map[string]*guardWatcher{}}
	g.restart(s.Snapshot())
	return g
}

// guard is the state of Guard. Its fields are guarded by mu.
type guard struct {
	t     testing.TB
	store *store.Store
	rand  *rand.Rand

	mu       sync.Mutex
	ended    bool
	last     *store.Snapshot
	watchers map[string]*guardWatcher

	from       uint64         // the history begins after it
	history    []*store.Event // the newest events
	boundaries []uint64       // of what was published together, of the history
}

// guardWatcher follows one resource, or all.
type guardWatcher struct {
	cursor *store.Cursor
	at     uint64 // what it has come to
	unread []*store.Event
}

const guardHistory = 256

func (g *guard) published(sn *store.Snapshot, events []*store.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return
	}
	if len(events) == 0 && g.store.Compacted() >= sn.Revision() {
		g.restart(sn) // history was lost, which is said to all
		return
	}
	g.checkState(sn, events)
	g.history = append(g.history, events...)
	g.boundaries = append(g.boundaries, sn.Revision())
	g.watch("", events, sn)
	seen := map[string]bool{}
	for _, e := range events {
		if r := e.Object.Key.Resource; !seen[r] {
			seen[r] = true
			g.watch(r, events, sn)
		}
	}
	for resource, w := range g.watchers { // watchers without events must see the revision, too
		if resource != "" && !seen[resource] && g.rand.IntN(8) == 0 {
			g.read(resource, w, sn)
		}
	}
	g.resume("", sn)
	if len(events) > 0 {
		g.resume(events[0].Object.Key.Resource, sn)
	}
	g.last = sn
	if extra := len(g.history) - guardHistory; extra > guardHistory {
		g.from = g.history[extra-1].Revision()
		for len(g.boundaries) > 0 && g.boundaries[0] < g.from {
			g.boundaries = g.boundaries[1:]
		}
		if len(g.boundaries) > 0 {
			g.from = g.boundaries[0] // of what was published together, all
		}
		g.history = slices.Clone(after(g.history, g.from))
	}
}

// restart forgets everything before a state.
func (g *guard) restart(sn *store.Snapshot) {
	g.last, g.from, g.history, g.boundaries = sn, sn.Revision(), nil, nil
	clear(g.watchers)
}

// checkState replays the events on the state before them.
func (g *guard) checkState(sn *store.Snapshot, events []*store.Event) {
	revision := g.last.Revision()
	changed := map[store.Key]*store.Object{}
	for i, e := range events {
		switch shared := g.store.Follows(); {
		case shared && e.Revision() != sn.Revision(), !shared && e.Revision() != revision+1:
			g.t.Errorf("event %d of those that lead from %d to %d has revision %d", i, g.last.Revision(), sn.Revision(), e.Revision())
		}
		revision = e.Revision()
		was, known := changed[e.Object.Key]
		if !known {
			was = g.last.Get(e.Object.Key)
		}
		if e.Prev != was {
			g.t.Errorf("the event of %v at %d says that another state was before: %+v, not %+v", e.Object.Key, e.Revision(), e.Prev, was)
		}
		if want := eventType(e, was); e.Type != want {
			g.t.Errorf("the event of %v at %d is of type %d, want %d", e.Object.Key, e.Revision(), e.Type, want)
		}
		changed[e.Object.Key] = e.Object
		if e.Type == store.Deleted {
			changed[e.Object.Key] = nil
		}
	}
	for key, now := range changed {
		if got := sn.Get(key); got != now {
			g.t.Errorf("the state at %d has another %v than its newest event", sn.Revision(), key)
		}
	}
	if sn.Revision() < revision || len(events) > 0 && sn.Revision() != revision {
		g.t.Errorf("the state is at %d after the event of %d", sn.Revision(), revision)
	}
}

func eventType(e *store.Event, was *store.Object) store.EventType {
	switch {
	case was == nil:
		return store.Added
	case e.Type == store.Deleted:
		return store.Deleted
	}
	return store.Modified
}

// watch has a watcher of a resource read along, now or later.
func (g *guard) watch(resource string, events []*store.Event, sn *store.Snapshot) {
	w := g.watchers[resource]
	if w == nil {
		cursor, err := g.store.Watch(resource, g.last.Revision())
		if err != nil {
			g.refused(resource, g.last.Revision(), err)
			return
		}
		w = &guardWatcher{cursor: cursor, at: g.last.Revision()}
		g.watchers[resource] = w
	}
	w.unread = append(w.unread, of(resource, events)...)
	if g.rand.IntN(4) > 0 || len(w.unread) > 8 {
		g.read(resource, w, sn)
	}
}

// read reads all there is for a watcher.
func (g *guard) read(resource string, w *guardWatcher, sn *store.Snapshot) {
	want := w.unread
	w.unread = nil
	if !g.drain(resource, w.cursor, w.at, want, sn) {
		delete(g.watchers, resource)
	}
	w.at = sn.Revision()
}

// resume begins a new watch at a random revision of the history, possibly inside a unit.
func (g *guard) resume(resource string, sn *store.Snapshot) {
	from := g.from
	if n := len(g.history); n > 0 {
		if i := g.rand.IntN(min(n, 32) + 1); i < n {
			from = max(from, g.history[n-1-i].Revision()-uint64(g.rand.IntN(2)))
		}
	}
	cursor, err := g.store.Watch(resource, from)
	if err != nil {
		g.refused(resource, from, err)
		return
	}
	g.drain(resource, cursor, from, of(resource, after(g.history, from)), sn)
}

// drain reads a cursor, which has come to a revision, to its end and compares; false when it was
// refused.
func (g *guard) drain(resource string, cursor *store.Cursor, from uint64, want []*store.Event, sn *store.Snapshot) bool {
	for at := 0; ; {
		events, revision, err := cursor.Next()
		if err != nil {
			g.refused(resource, from, err)
			return false
		}
		if len(events) > len(want)-at || !slices.Equal(events, want[at:at+len(events)]) {
			g.t.Errorf("a watch of %q at %d got events %v, want %v", resource, sn.Revision(), revisions(events), revisions(want[at:]))
			return true
		}
		at += len(events)
		if from = revision; len(events) > 0 && revision < events[len(events)-1].Revision() {
			g.t.Errorf("a watch of %q says that it has come to %d, with the event of %d", resource, revision, events[len(events)-1].Revision())
		}
		switch {
		case len(events) == 0 && (at != len(want) || revision < sn.Revision()):
			g.t.Errorf("a watch of %q says that it has come to %d of %d; it got %d of %d events", resource, revision, sn.Revision(), at, len(want))
			return true
		case len(events) == 0:
			return true
		case at < len(want) && revision >= want[at].Revision():
			g.t.Errorf("a watch of %q says that it has come to %d before it got the event of %d", resource, revision, want[at].Revision())
		case at < len(want) && g.together(events[len(events)-1], want[at]):
			g.t.Errorf("a watch of %q got what was published together in parts: up to %d, and from %d on", resource, revision, want[at].Revision())
		}
	}
}

// together says whether two events that follow each other were published at once.
func (g *guard) together(a, b *store.Event) bool {
	if len(g.boundaries) == 0 || b.Revision() <= g.boundaries[0] {
		return false // too long ago
	}
	i, _ := slices.BinarySearch(g.boundaries, a.Revision())
	return i == len(g.boundaries) || g.boundaries[i] >= b.Revision()
}

// refused checks the error of a watch of events that are not retained.
func (g *guard) refused(resource string, revision uint64, err error) {
	var compacted *store.CompactedError
	switch {
	case errors.Is(err, store.ErrClosed):
	case !errors.As(err, &compacted):
		g.t.Errorf("a watch of %q after %d: %v", resource, revision, err)
	case compacted.Floor <= revision || compacted.Floor > g.store.Snapshot().Revision():
		g.t.Errorf("a watch of %q after %d of %d got the floor %d", resource, revision, g.store.Snapshot().Revision(), compacted.Floor)
	}
}

// after returns the events after a revision.
func after(events []*store.Event, revision uint64) []*store.Event {
	for i, e := range events {
		if e.Revision() > revision {
			return events[i:]
		}
	}
	return nil
}

// of returns the events of a resource; "" is all.
func of(resource string, events []*store.Event) []*store.Event {
	if resource == "" {
		return events
	}
	var some []*store.Event
	for _, e := range events {
		if e.Object.Key.Resource == resource {
			some = append(some, e)
		}
	}
	return some
}

func revisions(events []*store.Event) (all []uint64) {
	for _, e := range events {
		all = append(all, e.Revision())
	}
	return all
}
