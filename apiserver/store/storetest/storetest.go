// Package storetest holds every store to the contract of [store.Store].
//
// [Run] is the conformance suite, the same for all backends; [RunVirtual] runs it in bubbles of
// virtual time, for backends that need no operating system. [Guard] holds a store that is in use,
// in any test, to what watches are promised. [Check] verifies all that must be true of any one
// Snapshot. [Backend] is a store.Backend in memory that fails on demand and survives its stores, as
// a disk does.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) *store.Store { … open an empty store, close it in t.Cleanup … })
//	}
//
// The random test prints the seed it ran with when it fails; the environment variable
// KELSON_SEED repeats it.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"kelson.dev/apiserver/store"
)

// Open opens a new, empty store for a test and has it closed when the test ends. A Config.Retain of
// some hundred keeps the suite fast: part of it writes until events fall off the end of the log.
type Open func(t *testing.T) *store.Store

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

// RunVirtual runs the suite, and tests that need a clock, in bubbles of testing/synctest. The store
// must be idle there between calls, and leave no goroutine behind.
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
		{"EndedContext", testEndedContext},
		{"Scan", testScan},
		{"Indexes", testIndexes},
		{"SnapshotsDoNotChange", testSnapshotsDoNotChange},
		{"At", testAt},
		{"PinnedRevisions", testPinnedRevisions},
		{"Fork", testFork},
		{"Watch", testWatch},
		{"WatchFromTheFuture", testWatchFromTheFuture},
		{"WatchFallsOff", testWatchFallsOff},
		{"WatchTellsReadiness", testWatchTellsReadiness},
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
	return fmt.Appendf(nil, `{"kind":"T","metadata":{"uid":%q,"ownerReferences":[%s]},"payload":%q}`, uid, strings.Join(refs, ","), payload)
}

func key(name string) store.Key {
	return store.Key{Resource: "things.example.com", Namespace: "default", Name: name}
}

// put writes one object, whatever was there.
func put(t *testing.T, s *store.Store, k store.Key, data []byte) *store.Object {
	t.Helper()
	return commit(t, s, store.Op{Key: k, Data: data, Expect: store.AnyRevision})[0]
}

func commit(t *testing.T, s *store.Store, ops ...store.Op) []*store.Object {
	t.Helper()
	objs, err := s.Commit(context.Background(), ops...)
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	return objs
}

func watch(t *testing.T, s *store.Store, resource string, after uint64) *store.Cursor {
	t.Helper()
	c, err := s.Watch(resource, after)
	if err != nil {
		t.Fatalf("watch %q after %d: %v", resource, after, err)
	}
	return c
}

// drain returns all events that are there now, and the revision the cursor is at.
func drain(t *testing.T, c *store.Cursor) (all []*store.Event, revision uint64) {
	t.Helper()
	for {
		events, r, err := c.Next()
		if err != nil {
			t.Fatalf("next: %v", err)
		}
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
