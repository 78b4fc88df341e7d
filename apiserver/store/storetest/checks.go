package storetest

import (
	"context"
	"testing"

	"kelson.dev/apiserver/store"
)

// A unit can depend on objects that it does not write.
func testChecks(t *testing.T, s *store.Store) {
	other := put(t, s, key("other"), object("", "1"))
	before := s.Snapshot().Revision()
	write := store.Op{Key: key("a"), Data: object("", "1"), Expect: store.AnyRevision}
	check := func(name string, expect uint64) store.Op {
		return store.Op{Key: key(name), Expect: expect, Check: true}
	}
	whole := store.Key{Resource: other.Key.Resource}
	for _, test := range []struct {
		name   string
		op     store.Op
		reason error
	}{
		{"an older revision", check("other", other.Revision-1), store.ErrConflict},
		{"exists, but must not exist", check("other", 0), store.ErrExists},
		{"missing, but must exist", check("gone", 7), store.ErrNotFound},
		{"resource changed", store.Op{Key: whole, Expect: other.Revision - 1, Check: true}, store.ErrConflict},
	} {
		_, err := s.Commit(context.Background(), write, test.op)
		if conflict := wantReason(t, err, test.reason); conflict.Key != test.op.Key {
			t.Errorf("%s: conflict of %v", test.name, conflict.Key)
		}
	}
	if after := s.Snapshot().Revision(); after != before {
		t.Errorf("refused units took revisions: %d, before %d", after, before)
	}

	objs := commit(t, s, write, check("other", other.Revision), check("gone", 0),
		store.Op{Key: whole, Expect: before, Check: true},
		store.Op{Key: store.Key{Resource: "none"}, Expect: before, Check: true})
	if len(objs) != 5 || objs[0] == nil || objs[1] != nil || objs[2] != nil || objs[3] != nil {
		t.Fatalf("objects: %v", objs)
	}
	if got := s.Snapshot().Revision(); got != objs[0].Revision {
		t.Errorf("revision %d, want that of the only write, %d", got, objs[0].Revision)
	}
	if now := s.Snapshot().Get(key("other")); now.Revision != other.Revision {
		t.Errorf("a check wrote: %+v", now)
	}
	for _, op := range []store.Op{
		{Key: key("a"), Data: object("", "1"), Check: true},
		{Key: store.Key{Namespace: "n"}, Check: true},
	} {
		if _, err := s.Commit(context.Background(), op); err == nil {
			t.Errorf("%+v was accepted", op)
		}
	}
}
