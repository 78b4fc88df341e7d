package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/randomtest"
	"kelson.dev/internal/require"
)

// Reopen opens a backend over the same storage again. The previous one is closed.
type Reopen func() (store.Backend, error)

// RunBackend verifies that a backend stores what the store appends. Each call of storage returns
// new, empty storage.
func RunBackend(t *testing.T, storage func(t *testing.T) Reopen) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, reopen func() *store.Store)
	}{
		{"Reopen", testReopen},
		{"RevisionNeverGoesBack", testRevisionNeverGoesBack},
		{"OddRecords", testOddRecords},
		{"RandomRounds", testRandomRounds},
	} {
		t.Run(test.name, func(t *testing.T) {
			reopen := storage(t)
			var open *store.Store
			test.run(t, func() *store.Store {
				if open != nil {
					require.NoError(t, open.Close())
				}
				b, err := reopen()
				require.NoError(t, err)
				if open, err = store.Open(store.Config{Backend: b}); err != nil {
					t.Fatal(err)
				}
				return open
			})
			open.Close()
		})
	}
}

func testReopen(t *testing.T, reopen func() *store.Store) {
	s := reopen()
	empty := s.Snapshot().Revision()
	if s = reopen(); s.Snapshot().Revision() != empty || contents(s.Snapshot()) != "" {
		t.Errorf("empty, reopened at %d: %q", s.Snapshot().Revision(), contents(s.Snapshot()))
	}
	put(t, s, key("a"), object("ua", "1", "o"))
	put(t, s, key("a"), object("ua", "2", "o"))
	put(t, s, store.Key{Resource: "nodes", Name: "n"}, object("un", "1"))
	want := s.Snapshot()
	s = reopen()
	if got := s.Snapshot(); got.Revision() != want.Revision() || contents(got) != contents(want) {
		t.Errorf("reopened at %d:\n%swant %d:\n%s", got.Revision(), contents(got), want.Revision(), contents(want))
	}
	Check(t, s.Snapshot())
	if _, err := s.Watch("", want.Revision()-1); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("watch from before the start: %v", err)
	}
	c := watch(t, s, "", want.Revision())
	obj := put(t, s, key("a"), object("ua", "3"))
	if events, _ := drain(t, c); len(events) != 1 || obj.Revision != want.Revision()+1 ||
		obj.Created != want.Get(key("a")).Created {
		t.Errorf("written after reopening: %+v", obj)
	}
}

func testRevisionNeverGoesBack(t *testing.T, reopen func() *store.Store) {
	s := reopen()
	put(t, s, key("a"), object("", "1"))
	put(t, s, key("b"), object("", "1"))
	last := commit(t, s, store.Op{Key: key("b"), Expect: store.AnyRevision})[0]
	s = reopen()
	if got := s.Snapshot(); got.Revision() != last.Revision || got.Get(key("b")) != nil {
		t.Errorf("reopened at %d, want %d", got.Revision(), last.Revision)
	}
	last = commit(t, s, store.Op{Key: key("a"), Expect: store.AnyRevision})[0]
	if s = reopen(); s.Snapshot().Revision() != last.Revision {
		t.Errorf("empty, reopened at %d, want %d", s.Snapshot().Revision(), last.Revision)
	}
	if obj := put(t, s, key("a"), object("", "2")); obj.Revision != last.Revision+1 || obj.Created != obj.Revision {
		t.Errorf("written after all: %+v", obj)
	}
}

func testOddRecords(t *testing.T, reopen func() *store.Store) {
	s := reopen()
	for i, k := range []store.Key{
		{Resource: "r", Name: "n"}, {Resource: "r", Namespace: "n", Name: "n"},
		{Resource: "r.x", Namespace: "n", Name: "ü:ber/%41"},
		{Resource: "r", Name: strings.Repeat("n", 253)},
	} {
		put(t, s, k, object("", strings.Repeat("long ", i*i*30_000)))
	}
	want := s.Snapshot()
	if got := reopen().Snapshot(); contents(got) != contents(want) {
		t.Error("not the same after reopening")
	}
	Check(t, want)
}

func testRandomRounds(t *testing.T, reopen func() *store.Store) {
	seed := randomtest.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	s := reopen()
	for round := range 4 {
		for i := range 40 {
			var ops []store.Op
			for n := range 1 + r.IntN(8) {
				op := store.Op{Key: modelKey(r), Expect: store.AnyRevision}
				if r.IntN(3) > 0 {
					op.Data = object("", fmt.Sprint(round, i, n, strings.Repeat("x", r.IntN(2000))))
				}
				ops = append(ops, op)
			}
			if _, err := s.Commit(context.Background(), ops...); err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
		}
		want := s.Snapshot()
		s = reopen()
		if got := s.Snapshot(); got.Revision() != want.Revision() || contents(got) != contents(want) {
			t.Fatalf("round %d: not the same after reopening", round)
		}
	}
}
