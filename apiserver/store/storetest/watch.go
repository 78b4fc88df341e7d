package storetest

import (
	"errors"
	"testing"

	"kelson.dev/apiserver/store"
)

// Cursors deliver exactly the events of their resource after their revision, in order.
func testWatch(t *testing.T, s *store.Store) {
	start := s.Snapshot().Revision()
	all, things, nodes := watch(t, s, "", start), watch(t, s, "things.example.com", start), watch(t, s, "nodes", start)
	a := put(t, s, key("a"), object("", "1"))
	n := put(t, s, store.Key{Resource: "nodes", Name: "n"}, object("", "1"))
	b := put(t, s, key("b"), object("", "1"))
	for _, test := range []struct {
		name   string
		cursor *store.Cursor
		want   []*store.Object
	}{
		{"all", all, []*store.Object{a, n, b}},
		{"things", things, []*store.Object{a, b}},
		{"nodes", nodes, []*store.Object{n}},
		{"all, from the middle", watch(t, s, "", a.Revision), []*store.Object{n, b}},
		{"things, from another resource's revision", watch(t, s, "things.example.com", n.Revision), []*store.Object{b}},
		{"all, from now", watch(t, s, "", b.Revision), nil},
		{"a resource without events, from before", watch(t, s, "none", start), nil},
	} {
		events, revision := drain(t, test.cursor)
		if len(events) != len(test.want) || revision != b.Revision {
			t.Errorf("%s: %d events up to %d", test.name, len(events), revision)
			continue
		}
		for i := range events {
			if events[i].Object != test.want[i] {
				t.Errorf("%s: event %d is of %v", test.name, i, events[i].Object.Key)
			}
		}
	}
}

func testWatchFromTheFuture(t *testing.T, s *store.Store) {
	now := s.Snapshot().Revision()
	c := watch(t, s, "", now+2)
	if events, revision, err := c.Next(); len(events) > 0 || revision != now+2 || err != nil {
		t.Errorf("immediately: %d events up to %d, %v", len(events), revision, err)
	}
	put(t, s, key("a"), object("", "1"))
	put(t, s, key("a"), object("", "2"))
	if events, _ := drain(t, c); len(events) > 0 {
		t.Errorf("%d events of other resources", len(events))
	}
	put(t, s, key("a"), object("", "3"))
	if events, revision := drain(t, c); len(events) != 1 || events[0].Revision() != now+3 || revision != now+3 {
		t.Errorf("%d events up to %d", len(events), revision)
	}
}

// A cursor that falls behind the log gets ErrCompacted. Cursors that start at a revision that is
// still in the log miss no event, and writes of other resources do not end a cursor.
func testWatchFallsBehind(t *testing.T, s *store.Store) {
	start := s.Snapshot().Revision()
	slow, quiet := watch(t, s, "", start), watch(t, s, "nodes", start)
	ready := slow.Ready()
	compact(t, s, start)
	<-ready
	<-slow.Ready()
	for range 2 {
		if events, _, err := slow.Next(); !errors.Is(err, store.ErrCompacted) {
			t.Errorf("far behind: %d events, %v", len(events), err)
		}
	}
	if _, err := s.Watch(key("").Resource, start); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("watch from before the log: %v", err)
	}
	// From the oldest accepted revision on, no event is missing.
	newest := s.Snapshot().Revision()
	for after := start; ; after++ {
		c, err := s.Watch("", after)
		if err != nil {
			continue
		}
		if events, revision := drain(t, c); uint64(len(events)) != newest-after || revision != newest {
			t.Errorf("%d events between %d and %d", len(events), after, newest)
		}
		break
	}
	// Writes of other resources do not remove a resource's events from its log.
	if events, revision, err := quiet.Next(); len(events) > 0 || revision != s.Snapshot().Revision() || err != nil {
		t.Errorf("a quiet resource: %d events up to %d, %v", len(events), revision, err)
	}
	watch(t, s, "nodes", start)
}

// compact writes until the logs no longer have the events after a revision.
func compact(t *testing.T, s *store.Store, revision uint64) {
	t.Helper()
	for range 1000 {
		fill(t, s, key("noise"), 100)
		_, all := s.Watch("", revision)
		_, one := s.Watch(key("").Resource, revision)
		if errors.Is(all, store.ErrCompacted) && errors.Is(one, store.ErrCompacted) {
			return
		}
	}
	t.Fatal("the log still has the events")
}

func testWatchSignalsReadiness(t *testing.T, s *store.Store) {
	start := s.Snapshot().Revision()
	c, other := watch(t, s, "things.example.com", start), watch(t, s, "nodes", start)
	drain(t, c)
	ready, never := c.Ready(), other.Ready()
	if isClosed(ready) {
		t.Error("ready without an event")
	}
	put(t, s, key("a"), object("", "1"))
	<-ready
	<-c.Ready() // the event is not read yet
	if isClosed(never) {
		t.Error("ready for an event of another resource")
	}
	if events, _ := drain(t, c); len(events) != 1 {
		t.Errorf("%d events", len(events))
	}
	if isClosed(c.Ready()) {
		t.Error("ready when all was read")
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
