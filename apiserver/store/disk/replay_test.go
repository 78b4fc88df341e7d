package disk

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
)

// Replay repeats the writes after a revision as long as KeepAfter keeps their logs, including
// writes that a state contains.
func TestReplay(t *testing.T) {
	const after = 40
	for _, keep := range []bool{true, false} {
		dir := t.TempDir()
		opts := Options{NoSync: true, CheckpointBytes: 2000}
		if keep {
			opts.KeepAfter = func() uint64 { return after }
		}
		open := func() *Backend {
			b, err := OpenWith(dir, opts)
			require.NoError(t, err)
			return b.(*Backend)
		}
		written := open()
		s, err := store.Open(store.Config{Backend: written})
		require.NoError(t, err)
		var revisions []uint64
		for i := range 200 {
			objects, err := s.Commit(t.Context(),
				store.Op{Key: store.Key{Resource: "pods", Namespace: "default", Name: "web"}, Expect: store.AnyRevision,
					Data: fmt.Appendf(nil, `{"metadata":{},"i":"%0100d"}`, i)})
			require.NoError(t, err)
			revisions = append(revisions, objects[0].Revision)
			// On a busy machine, the test would otherwise end before a checkpoint removes logs.
			for written.checkpointing.Load() {
				time.Sleep(time.Millisecond)
			}
		}
		require.NoError(t, s.Close())
		b := open()
		if _, err := b.Replay(0, nil); err == nil {
			t.Error("replayed before Load")
		}
		_, err = b.Load(func(store.Record) error { return nil })
		require.NoError(t, err)
		var got []uint64
		complete, err := b.Replay(after, func(r store.Record, _ time.Time) error {
			got = append(got, r.Revision)
			return nil
		})
		if err != nil || complete != keep {
			t.Errorf("keep %v: complete %v, %v", keep, complete, err)
		}
		want := revisions[slices.Index(revisions, after)+1:]
		if keep && !slices.Equal(got, want) {
			t.Errorf("replayed %d writes from %v; want %d", len(got), got[:1], len(want))
		}
		if !keep && len(got) >= len(want) {
			t.Error("no log was removed")
		}
		if complete, err := b.Replay(revisions[199], nil); !complete || err != nil {
			t.Error("nothing to replay:", complete, err)
		}
		require.NoError(t, b.Close())
	}
}
