package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"kelson.dev/apiserver/store/filelock"
	"kelson.dev/internal/require"
)

func TestLocks(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	open := func() *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	want := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("%s: %v, want %v", what, err, want)
		}
	}
	first, second, third := open(), open(), open()
	want("the first lock", filelock.Exclusive(first), nil)
	want("a second exclusive lock", filelock.Exclusive(second), filelock.ErrLocked)
	want("a shared lock beside an exclusive one", filelock.Shared(second), filelock.ErrLocked)
	if _, err := second.WriteString("text"); err != nil {
		t.Fatal("write to a locked file:", err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "text" {
		t.Fatal("read a locked file:", string(text), err)
	}
	first.Close()
	want("a shared lock after the file was closed", filelock.Shared(second), nil)
	want("a second shared lock", filelock.Shared(third), nil)
	want("an exclusive lock beside shared ones", filelock.Exclusive(open()), filelock.ErrLocked)
}
