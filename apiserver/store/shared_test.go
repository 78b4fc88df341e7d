package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
)

// The suite of all stores passes over a shared log, also when the access is as far behind as its
// contract allows.
func TestSharedLog(t *testing.T) {
	for name, lazy := range map[string]bool{"eager": false, "lazy": true} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) *store.Store {
				s := storetest.New(t, store.Config{Shared: storetest.NewLog().Shared(lazy), Retain: 500})
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
		err = each(store.Record{Key: thing("bad"), Revision: revision, Created: revision,
			Data: []byte("not an object")})
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

// A record of another program that is not an object does not stop a store that has to read the
// state again.
func TestReloadSkipsMalformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(store.Config{Shared: &foreign{Shared: storetest.NewLog().Shared(false)},
			Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = s.Commit(ctx, create("good"))
		require.NoError(t, err)
		if sn := s.Snapshot(); sn.Count("things", "") != 1 {
			t.Errorf("%d objects, want 1", sn.Count("things", ""))
		}
	})
}

// A write to an object that another program has replaced by something else ends with an error other
// than a conflict, after which clients would try again forever.
func TestWriteOverMalformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := storetest.NewLog()
		s := storetest.New(t, store.Config{Shared: log.Shared(false), Log: slog.New(slog.DiscardHandler)})
		ctx := t.Context()
		objs, err := s.Commit(ctx, create("a"))
		require.NoError(t, err)
		other := log.Shared(false)
		defer other.Close()
		for _, name := range []string{"a", "b"} {
			_, _, err = other.Commit(ctx,
				[]store.Op{{Key: thing(name), Data: []byte("not an object"), Expect: store.AnyRevision}})
			require.NoError(t, err)
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

// refusing is a log that refuses the first write at a revision that the store no longer retains: so
// many other writes came after it.
type refusing struct {
	store.Shared
	writes int
}

func (r *refusing) Commit(ctx context.Context, ops []store.Op) (uint64, bool, error) {
	if r.writes++; r.writes > 1 {
		return r.Shared.Commit(ctx, ops)
	}
	var first uint64
	for _, name := range []string{"x", "y", "z"} {
		revision, _, err := r.Shared.Commit(ctx, []store.Op{create(name)})
		if err != nil {
			return 0, false, err
		}
		if first == 0 {
			first = revision
		}
	}
	synctest.Wait() // the store follows
	return first, false, nil
}

// The store tries a write again if its precondition failed in a state that the store no longer has,
// and holds now.
func TestRefusedAtCompactedRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &refusing{Shared: storetest.NewLog().Shared(false)}
		s := storetest.New(t, store.Config{Shared: log, Retain: 1})
		if objs, err := s.Commit(t.Context(), create("a")); err != nil || len(objs) != 1 || log.writes != 2 {
			t.Errorf("%v after %d writes: %v", objs, log.writes, err)
		}
	})
}

// noSpace is a log without space for data.
type noSpace struct {
	store.Shared
	full bool
}

func (n *noSpace) Commit(ctx context.Context, ops []store.Op) (uint64, bool, error) {
	if n.full && ops[0].Data != nil {
		return 0, false, fmt.Errorf("%w: the cause", store.ErrFull)
	}
	return n.Shared.Commit(ctx, ops)
}

// A store logs once why its log accepts no data, and when it does again. Deletions, which need no
// space, change nothing.
func TestFullSharedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		shared := &noSpace{Shared: storetest.NewLog().Shared(false)}
		s := storetest.New(t, store.Config{Shared: shared, Log: slog.New(slog.NewTextHandler(&text, nil))})
		commit := func(want error, op store.Op) {
			t.Helper()
			if _, err := s.Commit(t.Context(), op); !errors.Is(err, want) {
				t.Errorf("%v: %v, want %v", op.Key, err, want)
			}
		}
		commit(nil, create("a"))
		shared.full = true
		commit(store.ErrFull, create("b"))
		commit(nil, store.Op{Key: thing("a"), Expect: store.AnyRevision})
		commit(store.ErrFull, create("b"))
		shared.full = false
		commit(nil, create("b"))
		commit(nil, create("c"))
		var lines []string
		for line := range strings.Lines(text.String()) {
			_, rest, _ := strings.Cut(line, "level=")
			lines = append(lines, strings.TrimSpace(rest))
		}
		want := []string{
			`ERROR msg="no space left for a write; nothing was written" err="no space left for the state: nothing was written: the cause"`,
			`INFO msg="space is free again; accepting writes"`,
		}
		if !slices.Equal(lines, want) {
			t.Errorf("logged %q, want %q", lines, want)
		}
	})
}

// unreadable is a log with a record that can't be decrypted.
type unreadable struct{ store.Shared }

func (unreadable) Follow(context.Context, uint64, func(uint64, []store.Record)) error {
	return errors.New("unreadable")
}

// An error that lasts is logged every minute, although the store tries again ten times a second.
func TestLastingErrorOfSharedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		s, err := store.Open(store.Config{Shared: unreadable{storetest.NewLog().Shared(false)},
			Log: slog.New(slog.NewTextHandler(&text, nil))})
		require.NoError(t, err)
		time.Sleep(150 * time.Second)
		require.NoError(t, s.Close())
		if n := strings.Count(text.String(), "\n"); n != 3 {
			t.Errorf("%d lines, want 3:\n%s", n, text.String())
		}
	})
}
