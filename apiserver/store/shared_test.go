package store_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
)

// API-13
func TestSharedLog(t *testing.T) {
	for name, lazy := range map[string]bool{"eager": false, "lazy": true} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) *store.Store {
				s, err := store.Open(store.Config{Shared: storetest.NewLog().Shared(lazy), Retain: 500})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				return s
			})
		})
	}
}

// foreign is a log to which another program wrote a record that is not an object. Its history is
// compacted before a store follows it, so that the store must load it again.
type foreign struct {
	store.Shared
	compacted, reloaded bool
}

func (f *foreign) Load(ctx context.Context, each func(store.Record) error) (uint64, error) {
	revision, err := f.Shared.Load(ctx, each)
	if err == nil && f.compacted {
		err = each(store.Record{Key: thing("bad"), Revision: revision, Created: revision, Data: []byte("not an object")})
		f.reloaded = err == nil
	}
	return revision, err
}

func (f *foreign) Follow(ctx context.Context, after uint64, apply func(uint64, []store.Record)) error {
	if f.compacted = true; !f.reloaded {
		return store.ErrCompacted
	}
	return f.Shared.Follow(ctx, after, apply)
}

// API-13: a record of another program that is not an object does not stop a store that has to read
// the state again.
func TestReloadSkipsMalformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(store.Config{Shared: &foreign{Shared: storetest.NewLog().Shared(false)}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.Commit(ctx, create("good")); err != nil {
			t.Fatal(err)
		}
		if sn := s.Snapshot(); sn.Count("things", "") != 1 {
			t.Errorf("%d objects, want 1", sn.Count("things", ""))
		}
	})
}

// API-13: a write to an object that another program has replaced by something else ends with an
// error other than a conflict, after which clients would try again forever.
func TestWriteOverMalformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := storetest.NewLog()
		s, err := store.Open(store.Config{Shared: log.Shared(false), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx := t.Context()
		objs, err := s.Commit(ctx, create("a"))
		if err != nil {
			t.Fatal(err)
		}
		other := log.Shared(false)
		defer other.Close()
		for _, name := range []string{"a", "b"} {
			if _, _, err := other.Commit(ctx, []store.Op{{Key: thing(name), Data: []byte("not an object"), Expect: store.AnyRevision}}); err != nil {
				t.Fatal(err)
			}
		}
		update := create("a")
		update.Expect = objs[0].Revision
		for name, op := range map[string]store.Op{
			"update": update, "delete": {Key: thing("a"), Expect: objs[0].Revision}, "create": create("b"),
			"check": {Key: store.Key{Resource: "things"}, Expect: objs[0].Revision, Check: true},
		} {
			if _, err := s.Commit(ctx, op, create("c")); !errors.Is(err, store.ErrNotWritten) {
				t.Errorf("%s: %v, want ErrNotWritten", name, err)
			}
		}
		if objs, err := s.Commit(ctx, create("c")); err != nil || len(objs) != 1 {
			t.Errorf("another object: %v", err)
		}
	})
}
