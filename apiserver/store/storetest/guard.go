package storetest

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"kelson.dev/apiserver/store"
)

// Guard checks a store, at each of its publications until the test ends, against the guarantees of
// watches, in the terms of etcd's robustness tests:
//
//	ordered       events come in the order of their revisions
//	unique        no event comes twice
//	reliable      no event between others is missing
//	atomic        the events of a unit come together
//	filterable    a watch of a resource has the same events of it as a watch of all resources
//	resumable     a new watch after any revision continues there, or gets an error
//	bookmarkable  a cursor has returned all events up to the revision that it reports
//
// It also compares every event with the states before and after it. The reference is the state that
// the store publishes. The guard's own watchers read the events, some of them late. A test must not
// use Guard if it compacts the store while the guard's cursors are read, unless it expects
// ErrCompacted.
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

	from       uint64         // the history begins after this revision
	history    []*store.Event // the newest events
	boundaries []uint64       // the last revisions of the publications in history
}

// guardWatcher watches one resource, or all.
type guardWatcher struct {
	cursor *store.Cursor
	at     uint64 // the revision that it has reached
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
		g.restart(sn) // the store has lost history; all cursors get an error
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
			g.from = g.boundaries[0] // keep publications complete
		}
		g.history = slices.Clone(after(g.history, g.from))
	}
}

// restart discards everything before a state.
func (g *guard) restart(sn *store.Snapshot) {
	g.last, g.from, g.history, g.boundaries = sn, sn.Revision(), nil, nil
	clear(g.watchers)
}

// checkState applies the events to the previous state and compares the result.
func (g *guard) checkState(sn *store.Snapshot, events []*store.Event) {
	revision := g.last.Revision()
	changed := map[store.Key]*store.Object{}
	for i, e := range events {
		switch shared := g.store.Follows(); {
		case shared && e.Revision() != sn.Revision(), !shared && e.Revision() != revision+1:
			g.t.Errorf("an event between %[2]d and %[3]d, number %[1]d, has revision %[4]d", i, g.last.Revision(),
				sn.Revision(), e.Revision())
		}
		revision = e.Revision()
		was, found := changed[e.Object.Key]
		if !found {
			was = g.last.Get(e.Object.Key)
		}
		if !same(e.Prev, was) {
			g.t.Errorf("the event of %v at %d has the previous state %+v, want %+v", e.Object.Key, e.Revision(), e.Prev,
				was)
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
		if got := sn.Get(key); !same(got, now) {
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

// watch lets the watcher of a resource read the events, now or later.
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
	w.unread = append(w.unread, ofResource(resource, events)...)
	if g.rand.IntN(4) > 0 || len(w.unread) > 8 {
		g.read(resource, w, sn)
	}
}

// read reads all pending events of a watcher.
func (g *guard) read(resource string, w *guardWatcher, sn *store.Snapshot) {
	want := w.unread
	w.unread = nil
	if !g.drain(resource, w.cursor, w.at, want, sn) {
		delete(g.watchers, resource)
	}
	w.at = sn.Revision()
}

// resume starts a watch at a random revision of the history, possibly inside a unit.
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
	g.drain(resource, cursor, from, ofResource(resource, after(g.history, from)), sn)
}

// drain reads a cursor that has reached the revision from to its end and compares the events. It
// returns false if the cursor returned an error.
func (g *guard) drain(resource string, cursor *store.Cursor, from uint64, want []*store.Event,
	sn *store.Snapshot) bool {
	for at := 0; ; {
		events, revision, err := cursor.Next()
		if err != nil {
			g.refused(resource, from, err)
			return false
		}
		if len(events) > len(want)-at || !slices.EqualFunc(events, want[at:at+len(events)], sameEvent) {
			g.t.Errorf("a watch of %q at %d got events %v, want %v", resource, sn.Revision(), revisions(events),
				revisions(want[at:]))
			return true
		}
		at += len(events)
		if from = revision; len(events) > 0 && revision < events[len(events)-1].Revision() {
			g.t.Errorf("a watch of %q reports revision %d, below that of its event %d", resource, revision,
				events[len(events)-1].Revision())
		}
		switch {
		case len(events) == 0 && (at != len(want) || revision < sn.Revision()):
			g.t.Errorf("a watch of %q reports revision %d of %d after %d of %d events", resource, revision,
				sn.Revision(), at, len(want))
			return true
		case len(events) == 0:
			return true
		case at < len(want) && revision >= want[at].Revision():
			g.t.Errorf("a watch of %q reports revision %d before the event of %d", resource, revision,
				want[at].Revision())
		case at < len(want) && g.together(events[len(events)-1], want[at]):
			g.t.Errorf("a watch of %q got events that were published together in two parts: up to %d, and from %d on",
				resource, revision, want[at].Revision())
		}
	}
}

// together reports whether two consecutive events were published together.
func (g *guard) together(a, b *store.Event) bool {
	if len(g.boundaries) == 0 || b.Revision() <= g.boundaries[0] {
		return false // no longer in boundaries
	}
	i, _ := slices.BinarySearch(g.boundaries, a.Revision())
	return i == len(g.boundaries) || g.boundaries[i] >= b.Revision()
}

// refused checks the error of a watch whose events are no longer retained.
func (g *guard) refused(resource string, revision uint64, err error) {
	var compacted *store.CompactedError
	switch {
	case errors.Is(err, store.ErrClosed):
	case !errors.As(err, &compacted):
		g.t.Errorf("a watch of %q after %d: %v", resource, revision, err)
	case compacted.Floor <= revision || compacted.Floor > g.store.Snapshot().Revision():
		g.t.Errorf("a watch of %q after %d of %d got the floor %d", resource, revision, g.store.Snapshot().Revision(),
			compacted.Floor)
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

// ofResource returns the events of a resource, or all events if resource is "".
func ofResource(resource string, events []*store.Event) []*store.Event {
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
