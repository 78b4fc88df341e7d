package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/cmd/kelson/internal/data"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A backup of a directory changes nothing there, so that it also saves one that is damaged
// or read-only.
func TestBackupChangesNothing(t *testing.T) {
	dir := t.TempDir()
	backend, err := disk.Open(dir)
	require.NoError(t, err)
	s, err := store.Open(store.Config{Backend: backend})
	require.NoError(t, err)
	for i := range 3 {
		_, err = s.Commit(t.Context(), store.Op{Key: store.Key{Resource: "things", Name: fmt.Sprint(i)},
			Data: []byte(`{"metadata":{}}`)})
		require.NoError(t, err)
	}
	newest := s.Snapshot().Revision()
	require.NoError(t, s.Close())
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	log, err := os.ReadFile(logs[0])
	require.NoError(t, err)
	// The log loses its end: the end mark and a part of the last write.
	require.NoError(t, os.WriteFile(logs[0], log[:len(log)-30], 0o600))
	before := contents(t, dir)
	backup := filepath.Join(t.TempDir(), "backup")
	c := data.Command()
	var stderr bytes.Buffer
	c.SetArgs([]string{"backup", "--data-dir", dir, backup})
	c.SetOut(&bytes.Buffer{})
	c.SetErr(&stderr)
	require.NoError(t, c.Execute())
	assert.Contains(t, stderr.String(), "warning: acknowledged writes are MISSING")
	if !maps.Equal(before, contents(t, dir)) {
		t.Error("the backup changed the directory")
	}
	f, err := os.Open(backup)
	require.NoError(t, err)
	defer f.Close()
	objects := 0
	revision, err := archive.Read(f, func(store.Record) error { objects++; return nil })
	if err != nil || objects != 2 || revision != newest {
		t.Errorf("%d objects at revision %d, want 2 at %d: %v", objects, revision, newest, err)
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	found := map[string]string{}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		found[e.Name()] = string(content)
	}
	return found
}

// Users learn at the beginning that a copy to etcd will take hours, and how to avoid it.
func TestLongCopyIsAnnounced(t *testing.T) {
	for _, c := range []struct {
		now, revision uint64
		want          string
	}{
		{1, 300_001, ""},
		{500_000, 2, ""},
		{2, 500_000, "499998 writes. At 5000 a second, they take 0h01m."},
		{1, 1_000_000_001, "1000000000 writes. At 5000 a second, they take 55h33m."},
		{1, 1 << 63, "--bump-revision=9223372036854775808 "},
	} {
		if got := data.RaiseNote(c.now, c.revision); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("from %d to %d: %q, want %q", c.now, c.revision, got, c.want)
		}
	}
}

// A backup removes the files that killed backups to the same name left, and no others.
func TestUnfinishedBackups(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "backup")
	content := func(w io.Writer) error { return archive.Write(t.Context(), w, 7, slices.Values([]store.Record(nil))) }
	left := name + data.Unfinished + "1"
	for _, other := range []string{left, name + data.Unfinished + "x", name + ".old",
		filepath.Join(dir, "other") + data.Unfinished + "1"} {
		require.NoError(t, os.WriteFile(other, nil, 0o600))
	}
	require.NoError(t, os.Mkdir(name+data.Unfinished+"2", 0o700))
	// The second backup runs while the first one does.
	_, err := data.WriteBackup(name, func(w io.Writer) error {
		_, err := data.WriteBackup(name, content)
		assert.NoError(t, err)
		return content(w)
	})
	assert.NoError(t, err)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"backup", "backup.old", "backup.unfinished-2", "backup.unfinished-x",
		"other.unfinished-1"}
	assert.Slicef(t, names, want, "the folder")
}

// Backups to one name that run at once do not remove each other's files.
func TestConcurrentBackups(t *testing.T) {
	name := filepath.Join(t.TempDir(), "backup")
	var backups sync.WaitGroup
	for range 8 {
		backups.Go(func() {
			for range 20 {
				_, err := data.WriteBackup(name, func(w io.Writer) error {
					return archive.Write(t.Context(), w, 7, slices.Values([]store.Record(nil)))
				})
				assert.NoError(t, err)
			}
		})
	}
	backups.Wait()
}
