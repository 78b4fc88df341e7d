package store_test

import (
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/internal/require"
)

// A fold takes each event once. It starts again from a snapshot when the log no longer has the
// events that it misses.
func TestFold(t *testing.T) {
	st, err := store.Open(store.Config{Retain: 4})
	require.NoError(t, err)
	putDerived(t, st, "x", "a", `{}`)
	begun, taken, names := 0, 0, map[string]bool{}
	f := derived.NewFold(st, func(sn *store.Snapshot) {
		begun++
		clear(names)
		for obj := range sn.Scan("configmaps", "", store.Key{}) {
			names[obj.Key.Name] = true
		}
	}, func(e *store.Event) {
		taken++
		names[e.Object.Key.Name] = e.Type != store.Deleted
	}, "configmaps", "secrets")
	want := func(name string, exists bool, wantBegun, wantTaken int) {
		t.Helper()
		require.NoError(t, f.RLock())
		defer f.RUnlock()
		if names[name] != exists || begun != wantBegun || taken != wantTaken {
			t.Errorf("%s: %v, %d times from the start, %d events", name, names[name], begun, taken)
		}
	}
	want("a", true, 1, 0)
	want("a", true, 1, 0)
	putDerived(t, st, "x", "b", `{}`)
	putDerived(t, st, "x", "c", `{}`)
	want("c", true, 1, 2)
	_, err = st.Commit(t.Context(), store.Op{Key: store.Key{Resource: "configmaps", Namespace: "x", Name: "b"},
		Expect: store.AnyRevision})
	require.NoError(t, err)
	want("b", false, 1, 3)
	for range 30 { // more than the log retains
		putDerived(t, st, "x", "d", `{}`)
	}
	want("d", true, 2, 3)
	putDerived(t, st, "x", "e", `{}`)
	require.NoError(t, st.Close())
	want("e", true, 2, 4)
	if err := derived.NewFold(st, func(*store.Snapshot) {}, func(*store.Event) {}, "configmaps").RLock(); err == nil {
		t.Error("the first read after Close returned no error")
	}
}
