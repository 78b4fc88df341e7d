package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
)

// After a compaction, watches and reads of older revisions fail with ErrCompacted, while up-to-date
// cursors continue. The compacted revision never decreases.
func TestCompact(t *testing.T) {
	st := store.OpenChecked(t, store.Config{})
	write := func(n int) (last uint64) {
		for range n {
			objects, err := st.Commit(t.Context(), store.Op{
				Key: store.Key{Resource: "apples", Name: "a"}, Data: []byte(`{"metadata":{"name":"a"}}`),
				Expect: store.AnyRevision,
			})
			require.NoError(t, err)
			last = objects[0].Revision
		}
		return last
	}
	first := write(1)
	half := write(299) // in the second chunk
	behind, err := st.Watch("apples", first)
	require.NoError(t, err)
	upToDate, err := st.Watch("", half)
	require.NoError(t, err)
	last := write(10)
	if err := st.Compact(last + 1); !errors.Is(err, store.ErrFuture) {
		t.Error(err)
	}
	if err := st.Compact(0); err != nil || st.Compacted() != 0 {
		t.Error(err, st.Compacted())
	}
	if err := st.Compact(half); err != nil || st.Compacted() != half {
		t.Error(err, st.Compacted())
	}
	<-behind.Ready()
	if _, _, err := behind.Next(); !errors.Is(err, store.ErrCompacted) {
		t.Error(err)
	}
	if events, _, err := upToDate.Next(); err != nil || len(events) != 10 || events[0].Revision() != half+1 {
		t.Error(len(events), err)
	}
	for _, resource := range []string{"", "apples", "never written"} {
		if _, err := st.Watch(resource, half-1); !errors.Is(err, store.ErrCompacted) {
			t.Errorf("%q: %v", resource, err)
		}
		if _, err := st.Watch(resource, half); err != nil {
			t.Errorf("%q: %v", resource, err)
		}
	}
	if _, err := st.At(half - 1); !errors.Is(err, store.ErrCompacted) {
		t.Error(err)
	}
	if sn, err := st.At(half); err != nil || sn.Get(store.Key{Resource: "apples", Name: "a"}).Revision != half {
		t.Error(err)
	}
	if err := st.Compact(half - 5); err != nil || st.Compacted() != half {
		t.Error("a compaction went back:", err, st.Compacted())
	}
}

// Large objects shorten the history, down to its newest events.
func TestHistoryIsBoundedInBytes(t *testing.T) {
	st := store.OpenChecked(t, store.Config{Budget: func(int64) int64 { return 1 << 20 }})
	large := strings.Repeat("x", 10<<10)
	for i := range 1000 {
		_, err := st.Commit(t.Context(), store.Op{
			Key: store.Key{Resource: "apples", Name: "a"}, Expect: store.AnyRevision,
			Data: fmt.Appendf(nil, `{"metadata":{"name":"a"},"i":%d,"large":%q}`, i, large),
		})
		require.NoError(t, err)
	}
	kept := st.Snapshot().Revision() - st.Compacted()
	if kept < 90 || kept > 256 { // a MiB, and at most one more chunk
		t.Errorf("%d events are kept", kept)
	}
}

// The shared encoding of an event is discarded after its readers have passed; later readers encode
// again.
func TestLateReadersEncodeForThemselves(t *testing.T) {
	st := store.OpenChecked(t, store.Config{})
	cursor, err := st.Watch("apples", 0)
	require.NoError(t, err)
	made := 0
	encode := func() (any, error) { made++; return made, nil }
	var first *store.Event
	for i := range 1000 {
		_, err := st.Commit(t.Context(), store.Op{
			Key: store.Key{Resource: "apples", Name: "a"}, Expect: store.AnyRevision,
			Data: []byte(`{"metadata":{"name":"a"}}`),
		})
		require.NoError(t, err)
		if i == 0 {
			events, _, err := cursor.Next()
			require.NoError(t, err)
			first = events[0]
			first.Memo("key", encode)
			if v, _ := first.Memo("key", encode); v != 1 {
				t.Error("created twice")
			}
		}
	}
	for want := 2; want < 4; want++ {
		if v, err := first.Memo("key", encode); v != want || err != nil {
			t.Error(v, err)
		}
	}
}
