package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
)

// Create, update and delete take successive revisions and cause one event each, with the previous
// object. A deletion returns the last state.
func testWrite(t *testing.T, s *store.Store) {
	c := watch(t, s, "", s.Snapshot().Revision())
	first := s.Snapshot().Revision() + 1
	created := commit(t, s, store.Op{Key: key("a"), Data: object("u", "1")})[0]
	updated := commit(t, s, store.Op{Key: key("a"), Data: object("u", "2"), Expect: created.Revision})[0]
	deleted := commit(t, s, store.Op{Key: key("a"), Expect: updated.Revision})[0]
	for i, obj := range []*store.Object{created, updated, deleted} {
		if obj.Key != key("a") || obj.Revision != first+uint64(i) || obj.Created != first || obj.Head.UID != "u" {
			t.Errorf("object %d: %+v", i, obj)
		}
		checkData(t, obj)
	}
	if got := payload(t, deleted); got != "2" {
		t.Errorf("the deleted object has payload %q, want that of the last state", got)
	}
	events, revision := drain(t, c)
	if len(events) != 3 || revision != deleted.Revision {
		t.Fatalf("%d events up to %d", len(events), revision)
	}
	for i, want := range []*store.Event{
		{Type: store.Added, Object: created},
		{Type: store.Modified, Object: updated, Prev: created},
		{Type: store.Deleted, Object: deleted, Prev: updated},
	} {
		if got := events[i]; got.Type != want.Type || got.Object != want.Object || got.Prev != want.Prev {
			t.Errorf("event %d: %+v", i, got)
		}
	}
	if s.Snapshot().Get(key("a")) != nil {
		t.Error("deleted, but it still exists")
	}
	if objs, err := s.Commit(context.Background()); objs != nil || err != nil {
		t.Errorf("an empty unit returned %v, %v", objs, err)
	}
}

// A write whose precondition fails returns the reason and the current object, and takes no
// revision.
func testPreconditions(t *testing.T, s *store.Store) {
	obj := put(t, s, key("there"), object("", "1"))
	before := s.Snapshot().Revision()
	for _, test := range []struct {
		name   string
		op     store.Op
		reason error
	}{
		{"create an existing object", store.Op{Key: key("there"), Data: object("", "2")}, store.ErrExists},
		{"update an older state", store.Op{Key: key("there"), Data: object("", "2"), Expect: obj.Revision - 1},
			store.ErrConflict},
		{"update a newer state", store.Op{Key: key("there"), Data: object("", "2"), Expect: obj.Revision + 1},
			store.ErrConflict},
		{"delete an older state", store.Op{Key: key("there"), Expect: obj.Revision - 1}, store.ErrConflict},
		{"delete what must not be there", store.Op{Key: key("there")}, store.ErrExists},
		{"update a missing object", store.Op{Key: key("gone"), Data: object("", "2"), Expect: obj.Revision},
			store.ErrNotFound},
		{"delete a missing object", store.Op{Key: key("gone"), Expect: obj.Revision}, store.ErrNotFound},
		{"delete anything, nothing there", store.Op{Key: key("gone"), Expect: store.AnyRevision}, store.ErrNotFound},
	} {
		_, err := s.Commit(context.Background(), test.op)
		conflict := wantReason(t, err, test.reason)
		if conflict.Key != test.op.Key || conflict.Current != s.Snapshot().Get(test.op.Key) {
			t.Errorf("%s: %+v", test.name, conflict)
		}
	}
	if after := s.Snapshot().Revision(); after != before {
		t.Errorf("failed writes took revisions: %d, before %d", after, before)
	}
	put(t, s, key("new"), object("", "any, nothing there"))
	put(t, s, key("there"), object("", "any"))
}

func testUnits(t *testing.T, s *store.Store) {
	a := put(t, s, key("a"), object("ua", "1", "owner"))
	before := s.Snapshot()
	c := watch(t, s, "", before.Revision())
	_, err := s.Commit(context.Background(),
		store.Op{Key: key("a"), Expect: a.Revision},
		store.Op{Key: key("b"), Data: object("ub", "1", "owner")},
		store.Op{Key: key("c"), Data: object("uc", "1"), Expect: 1 << 40},
	)
	if conflict := wantReason(t, err, store.ErrNotFound); conflict.Key != key("c") {
		t.Errorf("conflict of %v", conflict.Key)
	}
	if events, _ := drain(t, c); len(events) > 0 || s.Snapshot().Revision() != before.Revision() {
		t.Fatalf("a failed unit left %d events, revision %d", len(events), s.Snapshot().Revision())
	}

	if s.Follows() {
		testSharedUnits(t, s, a)
		return
	}
	objs := commit(t, s,
		store.Op{Key: key("a"), Data: object("ua", "2"), Expect: a.Revision},
		store.Op{Key: key("b"), Data: object("ub", "1", "owner")},
		store.Op{Key: key("b"), Data: object("ub", "2", "owner"), Expect: store.AnyRevision},
		store.Op{Key: key("a"), Expect: store.AnyRevision},
		store.Op{Key: key("a"), Data: object("ua2", "3")},
	)
	for i, obj := range objs {
		if want := before.Revision() + 1 + uint64(i); obj.Revision != want {
			t.Errorf("object %d has revision %d, want %d", i, obj.Revision, want)
		}
	}
	events, _, err := c.Next() // one call: the events of a unit are not divided
	if err != nil || len(events) != len(objs) {
		t.Fatalf("%d events, %v", len(events), err)
	}
	sn := s.Snapshot()
	if sn.Get(key("a")) != objs[4] || sn.Get(key("b")) != objs[2] || objs[4].Created != objs[4].Revision ||
		objs[2].Created != objs[1].Revision {
		t.Errorf("a %+v, b %+v", sn.Get(key("a")), sn.Get(key("b")))
	}
	check(t, sn, s.Follows())
	check(t, before, s.Follows())
}

// testSharedUnits has the rules that differ for a Shared: a key occurs once in a unit, and all ops
// get one revision.
func testSharedUnits(t *testing.T, s *store.Store, a *store.Object) {
	before := s.Snapshot()
	c := watch(t, s, "", before.Revision())
	_, err := s.Commit(context.Background(), store.Op{Key: key("a"), Expect: a.Revision},
		store.Op{Key: key("a"), Data: object("ua", "2")})
	if !errors.Is(err, store.ErrMalformed) {
		t.Errorf("a key twice: %v", err)
	}
	objs := commit(t, s,
		store.Op{Key: key("a"), Expect: a.Revision},
		store.Op{Key: key("b"), Data: object("ub", "1", "owner")},
		store.Op{Key: key("c"), Data: object("uc", "1"), Expect: store.AnyRevision},
	)
	for i, obj := range objs {
		if obj.Revision != before.Revision()+1 {
			t.Errorf("object %d has revision %d", i, obj.Revision)
		}
	}
	events, _, err := c.Next()
	if err != nil || len(events) != len(objs) {
		t.Fatalf("%d events, %v", len(events), err)
	}
	sn := s.Snapshot()
	if sn.Get(key("a")) != nil || sn.Get(key("b")) != objs[1] || sn.Get(key("c")) != objs[2] {
		t.Errorf("b %+v, c %+v", sn.Get(key("b")), sn.Get(key("c")))
	}
	check(t, sn, s.Follows())
	check(t, before, s.Follows())
}

func testKeepsItsOwnCopy(t *testing.T, s *store.Store) {
	data := object("u", "mine")
	put(t, s, key("a"), data)
	clear(data)
	if got := payload(t, s.Snapshot().Get(key("a"))); got != "mine" {
		t.Errorf("payload %q", got)
	}
}

func testMalformed(t *testing.T, s *store.Store) {
	for _, op := range []store.Op{
		{Key: key("a"), Data: []byte(``)},
		{Key: key("a"), Data: []byte(`{"kind":"T"}`)},
		{Key: key("a"), Data: []byte(`{"metadata":[]}`)},
		{Key: store.Key{Resource: "things.example.com"}, Data: object("", "")},
		{Key: store.Key{Name: "a"}, Data: object("", "")},
		{Key: key("a\x00b"), Data: object("", "")},
	} {
		if _, err := s.Commit(context.Background(), op); !errors.Is(err, store.ErrMalformed) {
			t.Errorf("%+v: %v", op, err)
		}
	}
}

func testEndedContext(t *testing.T, s *store.Store) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	before := s.Snapshot().Revision()
	if _, err := s.Commit(ctx, store.Op{Key: key("a"), Data: object("", "")}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if after := s.Snapshot().Revision(); after != before {
		t.Errorf("written after the end: revision %d, before %d", after, before)
	}
}

func testClose(t *testing.T, s *store.Store) {
	put(t, s, key("a"), object("u", "1"))
	sn := s.Snapshot()
	c, idle := watch(t, s, "", sn.Revision()), watch(t, s, "others", sn.Revision())
	woken := idle.Ready()
	put(t, s, key("a"), object("u", "2"))
	require.NoErrorf(t, s.Close(), "close")
	<-woken
	if _, _, err := idle.Next(); !errors.Is(err, store.ErrClosed) {
		t.Errorf("next: %v", err)
	}
	if events, _, err := c.Next(); len(events) != 1 || err != nil {
		t.Errorf("the last event: %d events, %v", len(events), err)
	}
	<-c.Ready()
	if _, _, err := c.Next(); !errors.Is(err, store.ErrClosed) {
		t.Errorf("next: %v", err)
	}
	if _, err := s.Commit(context.Background(), store.Op{Key: key("b"), Data: object("", "")}); !errors.Is(err,
		store.ErrClosed) {
		t.Errorf("commit: %v", err)
	}
	if _, err := s.Watch("", 0); !errors.Is(err, store.ErrClosed) {
		t.Errorf("watch: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if got := payload(t, s.Snapshot().Get(key("a"))) + payload(t, sn.Get(key("a"))); got != "21" {
		t.Errorf("read %q", got)
	}
	check(t, s.Snapshot(), s.Follows())
}

// fill writes n revisions of one object, in units for speed.
func fill(t *testing.T, s *store.Store, k store.Key, n int) {
	t.Helper()
	most := 100
	if s.Follows() {
		most = 1
	}
	for n > 0 {
		ops := make([]store.Op, min(n, most))
		for i := range ops {
			ops[i] = store.Op{Key: k, Data: object("", fmt.Sprint(n-i)), Expect: store.AnyRevision}
		}
		commit(t, s, ops...)
		n -= len(ops)
	}
}
