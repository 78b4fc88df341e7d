package disk

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
	"kelson.dev/internal/require"
)

// The limits of a store are below those of the files, so that what a store accepts can be read:
// frames, blocks and the encodings of encrypted values have room for it.
const _ = uint(archive.MaxBlock - 2*store.MaxUnit)

// A batch that no frame can hold is refused before anything is written, and later batches are
// accepted. A state with a record that no block can hold is not written, and the logs remain.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	backend, err := Open(dir)
	require.NoError(t, err)
	b := backend.(*Backend)
	_, err = b.Load(func(store.Record) error { return nil })
	require.NoError(t, err)
	data := append(append([]byte(`{"metadata":{},"x":"`), bytes.Repeat([]byte("x"), 1<<20)...), `"}`...)
	var batch []store.Record
	for i := range uint64(archive.MaxBlock>>20 + 1) {
		batch = append(batch, store.Record{Key: store.Key{Resource: "things", Name: fmt.Sprint(i)}, Revision: 2 + i,
			Created: 2 + i, Data: data})
	}
	if err := b.Append(batch); !errors.Is(err, store.ErrNotWritten) || !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("a batch of %d MiB: %v", len(batch), err)
	}
	if err := b.Append(batch[:1]); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	tooLarge := store.Record{Key: store.Key{Resource: "things", Namespace: "a", Name: "b"}, Revision: 2, Created: 2,
		Data: make([]byte, archive.MaxBlock)}
	b.WantCheckpoint()
	write := b.Checkpoint()
	if err := write(t.Context(), slices.Values([]store.Record{batch[0], tooLarge})); !errors.Is(err,
		archive.ErrTooLarge) {
		t.Errorf("a state with a record of 1 GiB: %v", err)
	}
	require.NoError(t, b.Close())
	if report, err := Check(dir); err != nil || report.Objects != 1 || report.Revision != 2 {
		t.Errorf("%v, %v", report, err)
	}
}
