package store_test

import (
	"fmt"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
)

// The statistics count commits, writes, batches and objects, without the commits that failed.
func TestStats(t *testing.T) {
	s := storetest.New(t, store.Config{})
	write := func(names ...string) {
		var ops []store.Op
		for _, name := range names {
			data := fmt.Sprintf(`{"metadata":{"name":%q}}`, name)
			ops = append(ops, store.Op{Key: store.Key{Resource: "configmaps", Namespace: "x", Name: name},
				Data: []byte(data)})
		}
		_, _ = s.Commit(t.Context(), ops...) // conflicts are not counted
	}
	write("a")
	write("b", "c")
	write("d", "a")
	got := s.Stats()
	if got.Commits != 2 || got.Writes != 3 || got.Batches != 2 || got.Objects != 3 || got.LogEvents != 3 ||
		got.LogBytes == 0 || got.Appending.Count != 0 ||
		got.Waiting.Count != 3 || got.Publishing.Count != 2 || got.Queue != 0 || got.Pins != 0 {
		t.Errorf("%+v", got)
	}
}
