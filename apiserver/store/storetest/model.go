package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/randomtest"
)

// testModel lets concurrent writers perform random operations while readers observe the store. Then
// it compares all observations with a model: the successful writes, replayed in order.
func testModel(t *testing.T, s *store.Store) {
	seed := randomtest.Seed(t)
	random := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

	start := s.Snapshot().Revision()
	// It begins before the writes: a store may soon forget the events after start.
	lazy := watch(t, s, "", start)
	const writers, callsEach = 6, 120
	w := &recording{store: s, start: start}
	written := make(chan struct{})
	var writing, reading sync.WaitGroup
	for i := range writers {
		writing.Go(func() { w.write(t, random(uint64(i)), i, callsEach) })
	}
	for i, resource := range append([]string{""}, modelResources...) {
		for j := range 3 {
			reading.Go(func() { w.read(t, random(uint64(100+10*i+j)), resource, written) })
		}
	}
	for i := range 2 {
		reading.Go(func() { w.takeSnapshots(t, random(uint64(200+i)), written) })
	}
	reading.Go(func() {
		for packing := true; packing; {
			s.Pack()
			select {
			case <-written:
				packing = false
			default:
				runtime.Gosched()
			}
		}
	})
	writing.Wait()
	close(written)
	reading.Wait()
	w.readLazily(t, lazy)
	w.verify(t)
	check(t, s.Snapshot(), s.Follows())
}

var modelResources = []string{"pods", "nodes", "things.example.com"}

func modelKey(r *rand.Rand) store.Key {
	k := store.Key{Resource: modelResources[r.IntN(3)], Name: fmt.Sprint("n", r.IntN(6))}
	if k.Resource != "nodes" {
		k.Namespace = []string{"default", "default-b", "other"}[r.IntN(3)]
	}
	return k
}

// recording contains the history of a run. Its fields are guarded by mu.
type recording struct {
	store *store.Store
	start uint64

	mu           sync.Mutex
	calls        []call
	observations []observation
	streams      []stream
}

// call is one Commit with its result.
type call struct {
	ops           []store.Op
	payloads      []string
	before, after uint64 // the published revisions at its start and end
	objects       []*store.Object
	conflict      *store.ConflictError
}

// observation is one Snapshot that a reader took. If whole, it must not show a part of a unit.
type observation struct {
	snapshot *store.Snapshot
	whole    bool
}

// stream holds the events that a cursor returned.
type stream struct {
	resource string
	after    uint64
	events   []*store.Event
	until    uint64
}

func (w *recording) write(t *testing.T, r *rand.Rand, writer, calls int) {
	for i := range calls {
		sn := w.store.Snapshot()
		c := call{before: sn.Revision()}
		for n := range 1 + max(0, r.IntN(8)-4) {
			k := modelKey(r)
			if w.store.Follows() && slices.ContainsFunc(c.ops, func(op store.Op) bool { return op.Key == k }) {
				continue // each key only once
			}
			op := store.Op{Key: k}
			c.payloads = append(c.payloads, fmt.Sprintf("%d.%d.%d", writer, i, n))
			if r.IntN(4) > 0 {
				owners := []string{"o1", "o2", "o3"}[:r.IntN(4)]
				op.Data = object(fmt.Sprintf("%s-%s-%s-%d", k.Resource, k.Namespace, k.Name, r.IntN(2)),
					c.payloads[len(c.ops)], owners...)
			}
			if now := sn.Get(k); now != nil {
				op.Expect = now.Revision - uint64(r.IntN(8)/7)
			}
			if r.IntN(5) == 0 {
				op.Expect = store.AnyRevision
			}
			c.ops = append(c.ops, op)
		}
		var err error
		c.objects, err = w.store.Commit(context.Background(), c.ops...)
		c.after = w.store.Snapshot().Revision()
		if err != nil && !errors.As(err, &c.conflict) {
			t.Errorf("commit: %v", err)
			return
		}
		if err == nil && c.objects[len(c.objects)-1].Revision > c.after {
			t.Errorf("revision %d was acknowledged, but %d is read", c.objects[len(c.objects)-1].Revision, c.after)
		}
		w.mu.Lock()
		w.calls = append(w.calls, c)
		w.mu.Unlock()
	}
}

// read follows the events of a resource until all writes are done. Sometimes it starts a new
// watch at the last revision.
func (w *recording) read(t *testing.T, r *rand.Rand, resource string, written <-chan struct{}) {
	after := w.start
	for ended := false; !ended; {
		c, err := w.store.Watch(resource, after)
		if errors.Is(err, store.ErrCompacted) {
			after = w.store.Snapshot().Revision() // the events are gone; the watch reports it
			continue
		}
		if err != nil {
			t.Errorf("watch %q after %d: %v", resource, after, err)
			return
		}
		got := stream{resource: resource, after: after}
		for range 1 + r.IntN(20) {
			events, until, err := c.Next()
			if errors.Is(err, store.ErrCompacted) {
				got.until = max(got.until, after)
				break
			}
			if err != nil {
				t.Errorf("next of %q: %v", resource, err)
				return
			}
			if read := w.store.Snapshot().Revision(); read < until {
				t.Errorf("the cursor reports revision %d, but the store is at %d", until, read)
			}
			got.events, got.until = append(got.events, events...), until
			if len(events) > 0 {
				continue
			}
			select {
			case <-c.Ready():
			case <-written:
				ended = until == w.store.Snapshot().Revision()
			}
		}
		after = got.until
		w.mu.Lock()
		w.streams = append(w.streams, got)
		w.mu.Unlock()
	}
}

func (w *recording) readLazily(t *testing.T, c *store.Cursor) {
	got := stream{after: w.start}
	for {
		events, until, err := c.Next()
		if errors.Is(err, store.ErrCompacted) && len(got.events) == 0 {
			return // the events are gone; the cursor reports it
		}
		if err != nil {
			t.Errorf("next: %v", err)
			return
		}
		got.until = until
		if got.events = append(got.events, events...); len(events) == 0 {
			w.streams = append(w.streams, got)
			return
		}
	}
}

// takeSnapshots takes snapshots of the current state and of earlier ones.
func (w *recording) takeSnapshots(t *testing.T, r *rand.Rand, written <-chan struct{}) {
	for n := 0; n < 300 && !isClosed(written); n++ {
		l := observation{w.store.Snapshot(), true}
		if revision := l.snapshot.Revision(); r.IntN(3) == 0 {
			past := revision - r.Uint64N(revision-w.start+1)
			// stores that share a log must find the events of their own writes
			if r.IntN(50) == 0 && !w.store.Follows() {
				if err := w.store.Compact(past); err != nil || w.store.Compacted() < past {
					t.Errorf("compact to %d of %d: %v; compacted is %d", past, revision, err, w.store.Compacted())
				}
			}
			sn, err := w.store.At(past)
			if errors.Is(err, store.ErrCompacted) {
				continue
			}
			if err != nil || sn.Revision() != past {
				t.Errorf("at %d of %d: %v", past, revision, err)
				return
			}
			l = observation{sn, false}
		}
		w.mu.Lock()
		w.observations = append(w.observations, l)
		w.mu.Unlock()
		runtime.Gosched()
	}
}

// verify replays the successful calls in the order of their revisions.
func (w *recording) verify(t *testing.T) {
	done := slices.DeleteFunc(slices.Clone(w.calls), func(c call) bool { return c.conflict != nil })
	slices.SortFunc(done, func(a, b call) int { return int(a.objects[0].Revision) - int(b.objects[0].Revision) })
	byRevision := map[uint64][]observation{}
	for _, l := range w.observations {
		byRevision[l.snapshot.Revision()] = append(byRevision[l.snapshot.Revision()], l)
	}
	state := map[store.Key]*store.Object{}
	history := map[store.Key][]version{}
	revision := w.start
	var events []*store.Event
	check := func(whole bool) {
		for _, l := range byRevision[revision] {
			if l.whole && !whole {
				t.Errorf("a snapshot at %d shows a part of a unit", revision)
			}
			compareState(t, l.snapshot, state)
		}
		delete(byRevision, revision)
	}
	check(true)
	for _, c := range done {
		for i, op := range c.ops {
			if i == 0 || !w.store.Follows() {
				revision++
			}
			obj, before := c.objects[i], state[op.Key]
			if obj.Revision != revision || obj.Key != op.Key {
				t.Fatalf("%v has revision %d, want %d: one was assigned twice or skipped", obj.Key, obj.Revision,
					revision)
			}
			if reason := violation(op, before); reason != nil {
				t.Errorf("revision %d: %v accepted, although: %v", revision, op.Key, reason)
				continue
			}
			e := &store.Event{Type: store.Modified, Object: obj, Prev: before}
			switch {
			case op.Data == nil:
				e.Type = store.Deleted
				delete(state, op.Key)
			case before == nil:
				e.Type = store.Added
			}
			if op.Data != nil {
				state[op.Key] = obj
				if payload(t, obj) != c.payloads[i] {
					t.Errorf("revision %d differs from the write", revision)
				}
			}
			events = append(events, e)
			history[op.Key] = append(history[op.Key], version{revision, state[op.Key]})
			if whole := i == len(c.ops)-1; whole || !w.store.Follows() {
				check(whole)
			}
		}
	}
	if len(byRevision) > 0 {
		t.Errorf("snapshots at revisions that were never assigned: %d", len(byRevision))
	}
	compareState(t, w.store.Snapshot(), state)
	for _, s := range w.streams {
		w.verifyStream(t, s, events)
	}
	for _, c := range w.calls {
		if c.conflict != nil {
			verifyConflict(t, c, history)
		}
	}
}

// violation returns the reason why an op must be refused if stored is the current object.
func violation(op store.Op, stored *store.Object) error {
	switch {
	case stored == nil && (op.Data == nil || op.Expect != 0 && op.Expect != store.AnyRevision):
		return store.ErrNotFound
	case stored == nil || op.Expect == store.AnyRevision || op.Expect == stored.Revision:
		return nil
	case op.Expect == 0:
		return store.ErrExists
	}
	return store.ErrConflict
}

func compareState(t *testing.T, sn *store.Snapshot, state map[store.Key]*store.Object) {
	n := 0
	for resource := range sn.Resources() {
		for obj := range sn.Scan(resource, "", store.Key{}) {
			if n++; !same(state[obj.Key], obj) {
				t.Errorf("the snapshot at %d has %v of revision %d, the model %+v", sn.Revision(), obj.Key,
					obj.Revision, state[obj.Key])
			}
		}
	}
	if n != len(state) {
		t.Errorf("the snapshot at %d has %d objects, the model %d", sn.Revision(), n, len(state))
	}
}

func (w *recording) verifyStream(t *testing.T, s stream, events []*store.Event) {
	var want []*store.Event
	for _, e := range events {
		if e.Revision() > s.after && e.Revision() <= s.until &&
			(s.resource == "" || e.Object.Key.Resource == s.resource) {
			want = append(want, e)
		}
	}
	if len(s.events) != len(want) {
		t.Errorf("%d events of %q between %d and %d, want %d", len(s.events), s.resource, s.after, s.until, len(want))
		return
	}
	for i, got := range s.events {
		if e := want[i]; !sameEvent(got, e) {
			t.Errorf("event %d of %q after %d: revision %d, want %d", i, s.resource, s.after, got.Revision(),
				e.Revision())
			return
		}
	}
}

// same reports whether two objects are the same revision. Pack copies objects, so the pointers may
// differ.
func same(a, b *store.Object) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Key == b.Key && a.Revision == b.Revision && a.Created == b.Created && bytes.Equal(a.Data, b.Data)
}

func sameEvent(a, b *store.Event) bool {
	return a.Type == b.Type && same(a.Object, b.Object) && same(a.Prev, b.Prev)
}

// version is a key's state since a revision.
type version struct {
	revision uint64
	object   *store.Object
}

// verifyConflict checks that the key had, at some time during the call, a state for which the call
// had to be refused.
func verifyConflict(t *testing.T, c call, history map[store.Key][]version) {
	i := slices.IndexFunc(c.ops, func(op store.Op) bool { return op.Key == c.conflict.Key })
	if slices.ContainsFunc(c.ops[i+1:], func(op store.Op) bool { return op.Key == c.conflict.Key }) {
		return // the conflict may be with an earlier op of the unit
	}
	if reason := violation(c.ops[i], c.conflict.Current); !errors.Is(c.conflict, c.conflict.Reason) ||
		reason != c.conflict.Reason {
		t.Errorf("refused with %v, but with %+v it is %v", c.conflict, c.conflict.Current, reason)
	}
	var now *store.Object
	possible := false
	for _, v := range history[c.conflict.Key] {
		if v.revision > c.after {
			break
		}
		if v.revision > c.before {
			possible = possible || same(now, c.conflict.Current)
		}
		now = v.object
	}
	if !possible && !same(now, c.conflict.Current) {
		t.Errorf("refused between %d and %d because of a state that %v did not have: %+v", c.before, c.after,
			c.conflict.Key, c.conflict.Current)
	}
}
