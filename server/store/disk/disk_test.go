package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"kelson.dev/server/store"
	"kelson.dev/server/store/disk"
	"kelson.dev/server/store/storetest"
)

func open(t testing.TB, dir string) store.Backend {
	t.Helper()
	b, err := disk.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// API-13
func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *store.Store {
		s, err := store.Open(store.Config{Backend: open(t, t.TempDir()), Retain: 500})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	})
}

// API-13
func TestBackend(t *testing.T) {
	storetest.RunBackend(t, func(t *testing.T) storetest.Reopen {
		dir := t.TempDir()
		return func() (store.Backend, error) { return disk.Open(dir) }
	})
}

func TestOneAtATime(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	_, err := disk.Open(dir)
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second open: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir).Close()
}

func TestDirectoryIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	open(t, dir).Close()
	for name, want := range map[string]os.FileMode{filepath.Dir(dir): 0o700, dir: 0o700, filepath.Join(dir, "kelson.db"): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("in the directory: %v, %v", left, err)
	}
}

func TestUnfinishedCreation(t *testing.T) {
	for name, left := range map[string][]byte{"empty": nil, "zeros": make([]byte, 16384), "short": []byte("x")} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "kelson.db.new"), left, 0o600); err != nil {
				t.Fatal(err)
			}
			open(t, dir).Close()
		})
	}
}

func TestWrongDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	edited := func(edit func(tx *bolt.Tx) error) string {
		dir := t.TempDir()
		open(t, dir).Close()
		db, err := bolt.Open(filepath.Join(dir, "kelson.db"), 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Update(edit); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "kelson.db"), []byte("something else\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, dir, want string }{
		{"a file", file, "not a directory"},
		{"another format", edited(func(tx *bolt.Tx) error {
			return tx.Bucket([]byte("store")).Put([]byte("format"), []byte("99"))
		}), `has format "99"; this program knows format "1"`},
		{"another program's tree", edited(func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("store")) }), "not made by this program"},
		{"another program's file", foreign, "invalid database"},
	} {
		if _, err := disk.Open(test.dir); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.dir) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
