// Package storetest tests stores against the contract of [store.Store].
//
// [Run] is the conformance suite for all backends; [RunVirtual] runs it in bubbles of virtual time,
// for backends that do not use the operating system. [Guard] checks, in any test, that a store
// keeps the guarantees of watches. [Check] verifies the invariants of a Snapshot. [Backend] is a
// store.Backend in memory that fails on demand and outlives its stores, as a disk does. [Fill]
// writes any records to a backend.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) *store.Store { … })    // opens a new, empty store
//	}
//
// A randomized test logs its seed; the environment variable KELSON_SEED repeats it.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
)

// Open opens a new, empty store for a test and closes it when the test ends. A Config.Retain of a
// few hundred keeps the suite fast: a part of it writes until the log drops events.
type Open func(t *testing.T) *store.Store

// New opens a store that closes when the test ends.
func New(t testing.TB, cfg store.Config) *store.Store {
	t.Helper()
	s, err := store.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// test is one rule of the contract.
type test struct {
	name string
	run  func(t *testing.T, s *store.Store)
}

// Run runs the conformance suite, under a Guard.
func Run(t *testing.T, open Open) {
	open = guarded(open)
	for _, test := range tests() {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// RunVirtual runs the suite, and tests that need a clock, in bubbles of testing/synctest. Between
// calls the store must be idle, and at the end it must leave no goroutine.
func RunVirtual(t *testing.T, open Open) {
	open = guarded(open)
	for _, test := range append(tests(), virtualTests()...) {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test.run(t, open(t)) })
		})
	}
}

func guarded(open Open) Open {
	return func(t *testing.T) *store.Store {
		s := open(t)
		Guard(t, s)
		return s
	}
}

func tests() []test {
	return []test{
		{"Write", testWrite},
		{"Preconditions", testPreconditions},
		{"Units", testUnits},
		{"Checks", testChecks},
		{"KeepsItsOwnCopy", testKeepsItsOwnCopy},
		{"Malformed", testMalformed},
		{"Limits", testLimits},
		{"EndedContext", testEndedContext},
		{"Scan", testScan},
		{"Indexes", testIndexes},
		{"SnapshotsDoNotChange", testSnapshotsDoNotChange},
		{"At", testAt},
		{"PinnedRevisions", testPinnedRevisions},
		{"Fork", testFork},
		{"Watch", testWatch},
		{"WatchFromTheFuture", testWatchFromTheFuture},
		{"WatchFallsBehind", testWatchFallsBehind},
		{"WatchSignalsReadiness", testWatchSignalsReadiness},
		{"Close", testClose},
		{"Model", testModel},
	}
}

// object is the smallest object with a uid and owners.
func object(uid, payload string, owners ...string) []byte {
	var refs []string
	for _, o := range owners {
		refs = append(refs, fmt.Sprintf(`{"apiVersion":"v1","kind":"Owner","name":"o","uid":%q}`, o))
	}
	return fmt.Appendf(nil, `{"kind":"T","metadata":{"uid":%q,"ownerReferences":[%s]},"payload":%q}`, uid,
		strings.Join(refs, ","), payload)
}

func key(name string) store.Key {
	return store.Key{Resource: "things.example.com", Namespace: "default", Name: name}
}

// put writes an object unconditionally.
func put(t *testing.T, s *store.Store, k store.Key, data []byte) *store.Object {
	t.Helper()
	return commit(t, s, store.Op{Key: k, Data: data, Expect: store.AnyRevision})[0]
}

func commit(t *testing.T, s *store.Store, ops ...store.Op) []*store.Object {
	t.Helper()
	objs, err := s.Commit(context.Background(), ops...)
	require.NoErrorf(t, err, "commit")
	return objs
}

func watch(t *testing.T, s *store.Store, resource string, after uint64) *store.Cursor {
	t.Helper()
	c, err := s.Watch(resource, after)
	require.NoErrorf(t, err, "watch %q after %d", resource, after)
	return c
}

// drain returns all pending events and the revision of the cursor.
func drain(t *testing.T, c *store.Cursor) (all []*store.Event, revision uint64) {
	t.Helper()
	for {
		events, r, err := c.Next()
		require.NoErrorf(t, err, "next")
		if revision = r; len(events) == 0 {
			return all, revision
		}
		all = append(all, events...)
	}
}

func wantReason(t *testing.T, err, reason error) *store.ConflictError {
	t.Helper()
	var conflict *store.ConflictError
	if !errors.Is(err, reason) || !errors.As(err, &conflict) {
		t.Fatalf("got error %v, want a conflict: %v", err, reason)
	}
	return conflict
}
