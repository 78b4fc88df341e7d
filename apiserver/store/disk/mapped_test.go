//go:build linux || darwin

package disk

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// mapsAll is the operating system's file system, with which states of any size are mapped.
var mapsAll = osFiles{mapFrom: 1}

// The suite of all backends passes with mapped states.
func TestMappedBackend(t *testing.T) {
	storetest.RunBackend(t, func(t *testing.T) storetest.Reopen {
		dir := t.TempDir()
		return func() (store.Backend, error) {
			return OpenWith(dir, Options{CheckpointBytes: 300, files: mapsAll})
		}
	})
}

// Only the states of large stores are mapped.
func TestMapsLargeStates(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.state")
	for size, want := range map[int64]bool{0: false, minMapped - 1: false, minMapped: true} {
		require.NoError(t, os.WriteFile(name, nil, 0o600))
		require.NoError(t, os.Truncate(name, size))
		r, err := osFiles{}.Open(name)
		require.NoError(t, err)
		mapped := r.Map()
		require.NoError(t, r.Close())
		if (mapped != nil) != want || want && int64(len(mapped)) != size {
			t.Errorf("%d bytes: mapped %v, %d bytes", size, mapped != nil, len(mapped))
		}
	}
}

// Objects of a mapped state stay readable when later checkpoints have removed its file, and when
// the store is closed.
func TestMappedObjectsOutliveTheirFile(t *testing.T) {
	dir := t.TempDir()
	opts := Options{CheckpointBytes: 1, files: mapsAll}
	records := func(b store.Backend) (all []store.Record) {
		_, err := b.Load(func(r store.Record) error {
			all = append(all, r)
			return nil
		})
		require.NoError(t, err)
		return all
	}
	b, err := OpenWith(dir, opts)
	require.NoError(t, err)
	records(b)
	checkpoint := func(b store.Backend, revision uint64, data string) {
		t.Helper()
		r := store.Record{Key: store.Key{Resource: "pods", Name: "a"}, Revision: revision, Created: 2, Data: []byte(data)}
		require.NoError(t, b.Append([]store.Record{r}))
		write := b.Checkpoint()
		if write == nil {
			t.Fatal("no checkpoint")
		}
		require.NoError(t, write(context.Background(), func(yield func(store.Record) bool) { yield(r) }))
	}
	checkpoint(b, 2, `{"metadata":{"name":"first"}}`)
	require.NoError(t, b.Close())

	b, err = OpenWith(dir, opts)
	require.NoError(t, err)
	first := records(b)
	assert.Equal(t, len(first), 1)
	checkpoint(b, 3, `{"metadata":{"name":"second"}}`)
	if _, err := os.Stat(filepath.Join(dir, fileName(2, stateSuffix))); !os.IsNotExist(err) {
		t.Fatalf("the first state: %v", err)
	}
	require.NoError(t, b.Close())
	assert.Equal(t, string(first[0].Data), `{"metadata":{"name":"first"}}`)
	assert.Equal(t, first[0].Key.Name, "a")
}

// A mapped state that is cut or changed is refused with the same error as one that is read.
func TestDamagedMappedState(t *testing.T) {
	var state bytes.Buffer
	require.NoError(t, archive.Write(t.Context(), &state, 9, func(yield func(store.Record) bool) {
		for i := range 3 {
			yield(store.Record{Key: store.Key{Resource: "pods", Name: fmt.Sprint(i)}, Revision: 9, Created: 2,
				Data: []byte(`{"metadata":{}}`)})
		}
	}))
	name := filepath.Join(t.TempDir(), "a.state")
	outcome := func(read func(func(store.Record) error) (uint64, error)) string {
		records := 0
		revision, err := read(func(store.Record) error {
			records++
			return nil
		})
		return fmt.Sprintf("%d records, revision %d, %v", records, revision, err)
	}
	check := func(what string, content []byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(name, content, 0o600))
		r, err := mapsAll.Open(name)
		require.NoError(t, err)
		defer r.Close()
		want := outcome(func(each func(store.Record) error) (uint64, error) {
			return archive.Read(bytes.NewReader(content), each)
		})
		got := outcome(func(each func(store.Record) error) (uint64, error) {
			return archive.ReadBytes(r.Map(), each)
		})
		assert.Equalf(t, got, want, "%s", what)
	}
	whole := state.Bytes()
	check("whole", whole)
	for i := range whole {
		check(fmt.Sprintf("cut at %d", i), whole[:i])
		changed := bytes.Clone(whole)
		changed[i] ^= 0x41
		check(fmt.Sprintf("changed at %d", i), changed)
	}
	check("longer", append(bytes.Clone(whole), 0))
}
