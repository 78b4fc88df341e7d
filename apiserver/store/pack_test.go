package store_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
)

// packable is an object with a UID, an owner and a payload of some hundred bytes.
func packable(i, version int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"name":"o%d","uid":"u%d","labels":{"a":"b"},"ownerReferences":[{"uid":"u%d"}]},"payload":"%d %s"}`,
		i, i, i/2, version, strings.Repeat("x", 300+i%100))
}

// Pack changes nothing that a reader can see, and what readers hold stays valid.
func TestPack(t *testing.T) {
	s := store.OpenChecked(t, store.Config{})
	key := func(i int) store.Key {
		return store.Key{Resource: "things", Namespace: fmt.Sprint("n", i%3), Name: fmt.Sprint("o", i)}
	}
	write := func(ops ...store.Op) {
		t.Helper()
		for i := range ops {
			ops[i].Expect = store.AnyRevision
		}
		_, err := s.Commit(t.Context(), ops...)
		require.NoError(t, err)
	}
	const count = 500
	for i := range count {
		write(store.Op{Key: key(i), Data: packable(i, 1)})
	}
	large := store.Key{Resource: "things", Name: "large"}
	write(store.Op{Key: large, Data: fmt.Appendf(nil, `{"metadata":{},"payload":%q}`, strings.Repeat("y", 100_000))})
	middle := s.Snapshot().Revision()
	for i := range count / 2 {
		write(store.Op{Key: key(i), Data: packable(i, 2)})
	}
	for i := range count / 5 {
		write(store.Op{Key: key(i * 2)})
	}

	state := func(sn *store.Snapshot) (lines []string) {
		for obj := range sn.Scan("things", "", store.Key{}) {
			lines = append(lines, fmt.Sprintf("%v %d %d %v %s", obj.Key, obj.Revision, obj.Created, obj.Head, obj.Data))
			if obj.Head.UID == "" {
				continue
			}
			if found := sn.ByUID(obj.Head.UID); found != obj {
				t.Errorf("ByUID(%s): %v", obj.Head.UID, found)
			}
			for dependent := range sn.Dependents(obj.Head.UID) {
				lines = append(lines, "owns "+dependent.Key.Name)
			}
		}
		return append(lines, fmt.Sprint(sn.Revision(), sn.Count("things", ""), sn.Count("things", "n1")))
	}
	at := func(revision uint64) []string {
		t.Helper()
		sn, err := s.At(revision)
		require.NoError(t, err)
		return state(sn)
	}
	events := func(c *store.Cursor, err error) (lines []string) {
		t.Helper()
		for err == nil {
			var some []*store.Event
			if some, _, err = c.Next(); len(some) == 0 {
				break
			}
			for _, e := range some {
				lines = append(lines, fmt.Sprintf("%v %s %d %v", e.Type, e.Object.Data, e.Revision(),
					e.Prev != nil && strings.Contains(string(e.Prev.Data), "payload")))
			}
		}
		require.NoError(t, err)
		return lines
	}
	old := s.Snapshot()
	halfway, err := s.Watch("things", middle)
	require.NoError(t, err)
	first, _, err := halfway.Next()
	if err != nil || len(first) == 0 {
		t.Fatal(len(first), err)
	}
	before, past, log := state(old), at(middle), events(s.Watch("things", 0))
	s.Pack()
	packed := s.Snapshot()
	if packed == old || packed.Get(key(1)) == old.Get(key(1)) || packed.Get(large) == old.Get(large) {
		t.Fatal("nothing was packed")
	}
	for name, pair := range map[string][2][]string{
		"state": {state(packed), before}, "snapshot of before": {state(old), before}, "past state": {at(middle), past},
		"events":          {events(s.Watch("things", 0)), log},
		"rest of a watch": {events(halfway, nil), log[len(log)-count/2-count/5+len(first):]},
	} {
		if !slices.Equal(pair[0], pair[1]) {
			t.Errorf("the %s differs: %d lines, want %d", name, len(pair[0]), len(pair[1]))
		}
	}
	// A second call, with hardly any change in between, does nothing.
	write(store.Op{Key: key(1), Data: packable(1, 3)})
	before, packed = state(s.Snapshot()), s.Snapshot()
	if done, again := s.Pack(); done || again > 0 || s.Snapshot() != packed {
		t.Error("packed again")
	}
	for i := range count {
		write(store.Op{Key: key(i), Data: packable(i, 4)})
	}
	if slices.Equal(state(s.Snapshot()), before) {
		t.Error("later writes have no effect")
	}
	// Nor does it while a list may continue at an old state.
	s.Pin(s.Snapshot())
	packed = s.Snapshot()
	if done, again := s.Pack(); done || again == 0 || s.Snapshot() != packed {
		t.Error("packed although a snapshot is pinned")
	}
}

// After a write whose outcome is unknown, the committer has a state that it must never publish.
func TestPackAfterFailure(t *testing.T) {
	backend := &storetest.Backend{}
	s := storetest.New(t, store.Config{Backend: backend})
	key := store.Key{Resource: "things", Name: "a"}
	backend.Before = func([]store.Record) error { return fmt.Errorf("broken") }
	if _, err := s.Commit(t.Context(), store.Op{Key: key, Data: packable(1, 1)}); err == nil {
		t.Fatal("the write succeeded")
	}
	if s.Pack(); s.Snapshot().Get(key) != nil {
		t.Error("the failed write is visible")
	}
}

// BenchmarkPack shows the time for each object, and the memory in use before and after.
func BenchmarkPack(b *testing.B) {
	const count = 20_000
	inUse := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapInuse) / 1e6
	}
	for b.Loop() {
		b.StopTimer()
		s, err := store.Open(store.Config{})
		require.NoError(b, err)
		var garbage [][]byte
		for i := range count {
			op := store.Op{Key: store.Key{Resource: "things", Name: fmt.Sprint("o", i)}, Data: packable(i, 1)}
			_, err = s.Commit(b.Context(), op)
			require.NoError(b, err)
			for size := 48; size < 1000; size += 48 {
				garbage = append(garbage, make([]byte, size))
			}
			if i%2000 == 0 {
				clear(garbage)
				garbage = garbage[:0]
			}
		}
		before := inUse()
		b.StartTimer()
		s.Pack()
		b.StopTimer()
		b.ReportMetric(before, "MB-before")
		b.ReportMetric(inUse(), "MB-after")
		s.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/object")
}
