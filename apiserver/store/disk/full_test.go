//go:build linux

package disk_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/internal/require"
)

// small mounts a file system of the given size in bytes.
func small(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("SKIPPED: needs the right to mount: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func quiet(dir string) (*store.Store, error) {
	log := slog.New(slog.DiscardHandler)
	b, err := disk.OpenWith(dir, disk.Options{Log: log})
	if err != nil {
		return nil, err
	}
	return store.Open(store.Config{Backend: b, Log: log})
}

func put(t *testing.T, s *store.Store, name string, size int) error {
	data := fmt.Appendf(nil, `{"metadata":{"name":%q},"padding":"%s"}`, name, strings.Repeat("x", size))
	_, err := s.Commit(t.Context(), store.Op{Key: store.Key{Resource: "things", Name: name}, Data: data,
		Expect: store.AnyRevision})
	return err
}

// The disk becomes full during writes. Acknowledged writes are not lost, refused writes are not
// stored, and the store continues automatically when there is space again, even without a write.
func TestFullDisk(t *testing.T) {
	for _, size := range []int{100, 5_000, 60_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			dir := small(t, 2<<20)
			data := filepath.Join(dir, "data")
			s, err := quiet(data)
			require.NoError(t, err)
			defer func() { s.Close() }()
			require.NoError(t, put(t, s, "first", size))
			acked := map[string]bool{"first": true}
			for round := range 3 {
				fill(t, filepath.Join(dir, "ballast"))
				refused := ""
				for i := 0; refused == ""; i++ {
					name := fmt.Sprintf("%d-%d", round, i)
					if err := put(t, s, name, size); err == nil {
						acked[name] = true
					} else if refused = name; !errors.Is(err, store.ErrFull) || !errors.Is(s.Failed(), store.ErrFull) {
						t.Fatalf("a write to a full disk: %v; the store reports %v", err, s.Failed())
					}
				}
				same(t, s, acked)
				require.NoError(t, os.Remove(filepath.Join(dir, "ballast")))
				if round == 1 { // no writes
					for until := time.Now().Add(time.Minute); s.Failed() != nil && time.Now().Before(until); {
						time.Sleep(10 * time.Millisecond)
					}
					if err := s.Failed(); err != nil {
						t.Fatalf("there is space again, but the store reports %v", err)
					}
				}
				name := fmt.Sprint("after-", round)
				if err := put(t, s, name, size); err != nil || s.Failed() != nil {
					t.Fatalf("there is space again: %v, %v", err, s.Failed())
				}
				acked[name] = true
				same(t, s, acked)
				if round == 2 {
					continue
				}
				require.NoError(t, s.Close())
				if s, err = quiet(data); err != nil {
					t.Fatal(err)
				}
				same(t, s, acked)
			}
		})
	}
}

// fill uses all remaining space.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	for block := make([]byte, 64<<10); ; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func same(t *testing.T, s *store.Store, want map[string]bool) {
	t.Helper()
	got := 0
	for r := range s.Snapshot().Records() {
		got++
		if !want[r.Key.Name] {
			t.Errorf("%s was refused and is there", r.Key.Name)
		}
	}
	if got != len(want) {
		t.Errorf("%d objects, want %d", got, len(want))
	}
}

// keep creates a data directory with the object kept.
func keep(t *testing.T, data string) {
	t.Helper()
	s, err := quiet(data)
	require.NoError(t, err)
	require.NoError(t, put(t, s, "kept", 100))
	require.NoError(t, s.Close())
}

// A start on a full disk fails or serves the stored state; it loses nothing.
func TestStartOnFullDisk(t *testing.T) {
	dir := small(t, 1<<20)
	data := filepath.Join(dir, "data")
	keep(t, data)
	fill(t, filepath.Join(dir, "ballast"))
	s, err := quiet(data)
	require.NoErrorf(t, err, "reading needs no space")
	defer s.Close()
	same(t, s, map[string]bool{"kept": true})
	for range 3 {
		if err := put(t, s, "refused", 100); !errors.Is(err, store.ErrFull) {
			t.Fatalf("a new log on a full disk: %v", err)
		}
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "ballast")))
	if err := put(t, s, "kept", 200); err != nil {
		t.Error(err)
	}
	same(t, s, map[string]bool{"kept": true})
}

// The system mounts a file system read-only after errors of the disk. A check can still read it.
func TestCheckReadOnly(t *testing.T) {
	dir := small(t, 1<<20)
	data := filepath.Join(dir, "data")
	keep(t, data)
	require.NoError(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	if r, err := disk.Check(data); err != nil || r.Objects != 1 {
		t.Errorf("%+v %v", r, err)
	}
}
