package disk_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
)

func open(t testing.TB, dir string) store.Backend {
	t.Helper()
	b, err := disk.Open(dir)
	require.NoError(t, err)
	return b
}

// The suite of all stores passes on disk, also with frequent checkpoints and without sync.
func TestStore(t *testing.T) {
	for name, opts := range map[string]disk.Options{"usual": {}, "many checkpoints": {CheckpointBytes: 2000},
		"no sync": {NoSync: true}} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) *store.Store {
				b, err := disk.OpenWith(t.TempDir(), opts)
				require.NoError(t, err)
				s := storetest.New(t, store.Config{Backend: b, Retain: 500})
				return s
			})
		})
	}
}

// The suite of all backends passes on disk, also with frequent checkpoints.
func TestBackend(t *testing.T) {
	for name, opts := range map[string]disk.Options{"usual": {}, "many checkpoints": {CheckpointBytes: 300}} {
		t.Run(name, func(t *testing.T) {
			storetest.RunBackend(t, func(t *testing.T) storetest.Reopen {
				dir := t.TempDir()
				return func() (store.Backend, error) { return disk.OpenWith(dir, opts) }
			})
		})
	}
}

func TestOneAtATime(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	_, err := disk.Open(dir)
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second open: %v", err)
	}
	require.NoError(t, first.Close())
	open(t, dir).Close()
}

func TestDirectoryIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: Windows has no permission bits")
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := openStore(dir)
	require.NoError(t, err)
	defer s.Close()
	if _, err := s.Commit(t.Context(), store.Op{Key: crashKey(0, 0, ""), Data: []byte(`{"metadata":{}}`)}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Dir(dir), dir} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("in the directory: %v, %v", files, err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
		}
	}
}

// A start and a stop without a write do not change the directory.
func TestNoFilesWithoutWrites(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		s, err := openStore(dir)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 1 {
		t.Error(files)
	}
}

func TestWrongDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	with := func(name string, content []byte) string {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		return dir
	}
	const state = "00000000000000000007.state"
	newer := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, 99), 7)
	newer = binary.LittleEndian.AppendUint32(newer, archive.Sum(newer))
	for _, test := range []struct{ name, dir, want string }{
		{"a file", file, "not a directory"},
		{"another format", with(state, append([]byte("KELSONST"), newer...)),
			"format version 99 is not supported, want 1"},
		{"another program's file", with(state, []byte("something else, and not short\n")),
			"not a state of this program"},
		{"a log without the preceding logs", with("00000000000000000007.log", nil), "a file is missing"},
		{"another program's tree", with("kelson.db", []byte("something else\n")), "not a state of this program"},
	} {
		s, err := openStore(test.dir)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.dir) {
			t.Errorf("%s: %v", test.name, err)
		}
		if err == nil {
			s.Close()
		}
	}
}

// A checkpoint runs concurrently with writes, and removes the files that it replaces.
func TestCheckpoints(t *testing.T) {
	dir := t.TempDir()
	opts := disk.Options{CheckpointBytes: 10_000}
	reopen := func() *store.Store {
		b, err := disk.OpenWith(dir, opts)
		require.NoError(t, err)
		s, err := store.Open(store.Config{Backend: b})
		require.NoError(t, err)
		return s
	}
	s := reopen()
	for i := range 2000 {
		op := store.Op{Key: crashKey(i%10, 0, ""), Data: fmt.Appendf(nil, `{"metadata":{},"payload":"%0200d"}`, i),
			Expect: store.AnyRevision}
		_, err := s.Commit(t.Context(), op)
		require.NoError(t, err)
	}
	want := fmt.Sprint(contentOf(s))
	require.NoError(t, s.Close())
	size := int64(0)
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range files {
		info, err := os.Stat(f)
		require.NoError(t, err)
		size += info.Size()
	}
	// of the half million bytes written, some are newer than the last checkpoint
	if size > 200_000 {
		t.Errorf("%d bytes in %v", size, files)
	}
	s = reopen()
	defer s.Close()
	if got := fmt.Sprint(contentOf(s)); got != want {
		t.Errorf("reopened:\n%s\nwant\n%s", got, want)
	}
}

func contentOf(s *store.Store) map[store.Key]string {
	content := map[store.Key]string{}
	for r := range s.Snapshot().Records() {
		content[r.Key] = fmt.Sprint(r.Revision, r.Created, string(r.Data))
	}
	return content
}

// A restore needs a whole backup and an empty directory. It returns the backup's objects at a later
// revision, so that no revision is used twice and old watches start again.
func TestRestore(t *testing.T) {
	from, err := openStore(t.TempDir())
	require.NoError(t, err)
	defer from.Close()
	for i := range 50 {
		_, err = from.Commit(t.Context(), store.Op{Key: crashKey(i, 0, ""), Data: []byte(`{"metadata":{}}`)})
		require.NoError(t, err)
	}
	var backup bytes.Buffer
	sn := from.Snapshot()
	require.NoError(t, archive.Write(t.Context(), &backup, sn.Revision(), sn.Records()))
	// A client has seen a write that came after the backup, and that the restored state therefore
	// lacks.
	later, err := from.Commit(t.Context(), store.Op{Key: crashKey(50, 0, ""), Data: []byte(`{"metadata":{}}`)})
	require.NoError(t, err)
	const ahead = 1000
	dir := filepath.Join(t.TempDir(), "new")
	if err := disk.Restore(dir, bytes.NewReader(backup.Bytes()[:backup.Len()-1]), 0); !errors.Is(err,
		archive.ErrDamaged) {
		t.Errorf("restore of a truncated backup: %v", err)
	}
	for _, ahead := range []uint64{math.MaxUint64, math.MaxUint64 - 1000, 1 << 62} {
		if err := disk.Restore(dir, bytes.NewReader(backup.Bytes()), ahead); err == nil ||
			!strings.Contains(err.Error(), "exceed") {
			t.Errorf("revisions after %d would wrap around: %v", ahead, err)
		}
	}
	require.NoError(t, disk.Restore(dir, bytes.NewReader(backup.Bytes()), ahead))
	if err := disk.Restore(dir, bytes.NewReader(backup.Bytes()), ahead); err == nil ||
		!strings.Contains(err.Error(), "already contains a store") {
		t.Errorf("a second restore: %v", err)
	}
	to, err := openStore(dir)
	require.NoError(t, err)
	defer to.Close()
	before := contentOf(from)
	delete(before, crashKey(50, 0, ""))
	if fmt.Sprint(contentOf(to)) != fmt.Sprint(before) || to.Snapshot().Revision() != sn.Revision()+ahead {
		t.Error("the restored state differs")
	}
	if _, err := to.Watch("things", later[0].Revision); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("a watch from a lost revision: %v", err)
	}
	again, err := to.Commit(t.Context(), store.Op{Key: crashKey(50, 0, ""), Data: []byte(`{"metadata":{}}`)})
	if err != nil || again[0].Revision <= later[0].Revision {
		t.Errorf("a revision is assigned again: %v, %v", again, err)
	}
}
