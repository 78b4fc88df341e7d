package disk_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
)

// number and sum encode like package archive.
func number(n uint64, size int) []byte { return binary.LittleEndian.AppendUint64(nil, n)[:size] }

// oversizedState writes a state file as earlier versions did: its only block has a small object and
// one of more than a gigabyte, whose data are zeros that the file system does not store.
func oversizedState(t *testing.T, dir string, revision uint64, small, large store.Record, size int64) {
	t.Helper()
	begin := archive.AppendRecord(nil, 0, small)
	large.Data = []byte{}
	begin = archive.AppendRecord(begin, 0, large)
	begin = binary.AppendUvarint(begin[:len(begin)-1], uint64(size)) // instead of the length 0
	length := number(uint64(int64(len(begin))+size), 4)
	zeros := make([]byte, 1<<20)
	sum := archive.Sum(length, begin)
	for left := size; left > 0; left -= int64(len(zeros)) {
		sum = archive.SumAfter(sum, zeros[:min(left, int64(len(zeros)))])
	}
	header := append(number(archive.Version, 4), number(revision, 8)...)
	end := number(2, 8)
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%020d.state", revision)))
	require.NoError(t, err)
	defer f.Close()
	for _, part := range [][]byte{[]byte("KELSONST"), header, number(uint64(archive.Sum(header)), 4), []byte("KBLK"),
		length, number(uint64(sum), 4), begin} {
		_, err = f.Write(part)
		require.NoError(t, err)
	}
	_, err = f.Seek(size, io.SeekCurrent)
	require.NoError(t, err)
	_, err = f.Write(bytes.Join([][]byte{[]byte("KEND"), end, number(uint64(archive.Sum(end)), 4)}, nil))
	require.NoError(t, err)
}

func thing(name string) store.Key {
	return store.Key{Resource: "things", Namespace: "default", Name: name}
}

func emptyDirectory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	b, err := disk.Open(dir)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	return dir
}

// An object that earlier versions stored in a block which no version can read is named, and can be
// taken out. The other objects can then be used.
func TestRemoveAnOversizedObject(t *testing.T) {
	dir := emptyDirectory(t)
	small := store.Record{Key: thing("small"), Revision: 2, Created: 2,
		Data: []byte(`{"kind":"Thing","metadata":{"name":"small","resourceVersion":"2"}}`)}
	const size = archive.MaxBlock + 1
	oversizedState(t, dir, 7, small, store.Record{Key: thing("large"), Revision: 3, Created: 3}, size)

	_, err := disk.Check(dir)
	var record *archive.RecordError
	if !errors.As(err, &record) || record.Key != thing("large") || !errors.Is(err, archive.ErrDamaged) ||
		!strings.Contains(err.Error(), fmt.Sprint(size)) {
		t.Fatalf("check: %v", err)
	}
	if err := disk.Remove(dir, thing("other"), nil); !errors.As(err, &record) || record.Key != thing("large") {
		t.Errorf("removing another object: %v", err)
	}
	var saved int64
	if err := disk.Remove(dir, thing("large"), func(r io.Reader) (err error) {
		saved, err = io.Copy(io.Discard, r)
		return err
	}); err != nil || saved != size {
		t.Fatalf("saved %d bytes, %v", saved, err)
	}
	report, err := disk.Check(dir)
	if err != nil || report.Objects != 1 || report.Revision != 8 {
		t.Fatalf("%v, %v", report, err)
	}
	s, err := openStore(dir)
	require.NoError(t, err)
	defer s.Close()
	if obj := s.Snapshot().Get(thing("small")); obj == nil || string(obj.Data) != string(small.Data) {
		t.Error("the other object is missing")
	}
	if _, err := s.Commit(t.Context(), store.Op{Key: thing("large"), Data: []byte(`{"metadata":{}}`)}); err != nil {
		t.Error(err)
	}
}

// Removing takes out the newest state of an object, wherever it is, and reports malformed objects.
func TestRemoveFromLogs(t *testing.T) {
	dir := t.TempDir()
	storetest.Fill(t, func() (store.Backend, error) { return disk.Open(dir) },
		store.Record{Key: thing("good"), Revision: 2, Created: 2, Data: []byte(`{"metadata":{}}`)},
		store.Record{Key: thing("bad"), Revision: 3, Created: 2, Data: []byte(`{"metadata":{},"kind":"Thing"}`)},
		store.Record{Key: thing("bad"), Revision: 4, Created: 2, Data: []byte(`{"kind":"Thing"}`)})
	_, err := disk.Check(dir)
	var record *archive.RecordError
	if !errors.As(err, &record) || record.Key != thing("bad") || record.Kind != "Thing" ||
		!errors.Is(err, store.ErrMalformed) {
		t.Errorf("check: %v", err)
	}
	if err := disk.Remove(dir, thing("missing"), nil); !errors.Is(err, disk.ErrNoObject) {
		t.Errorf("an object that is missing: %v", err)
	}
	var saved string
	err = disk.Remove(dir, thing("bad"), func(r io.Reader) error {
		data, err := io.ReadAll(r)
		saved = string(data)
		return err
	})
	if err != nil || saved != `{"kind":"Thing"}` {
		t.Errorf("saved %s, %v", saved, err)
	}
	if report, err := disk.Check(dir); err != nil || report.Objects != 1 || report.Revision != 5 {
		t.Errorf("%v, %v", report, err)
	}
	if err := disk.Remove(t.TempDir(), thing("bad"), nil); err == nil {
		t.Error("a folder without a state is accepted")
	}
	if _, err := os.Stat(filepath.Join(dir, "lock")); err != nil {
		t.Error(err)
	}
}
