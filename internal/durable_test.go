package internal_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"kelson.dev/internal/durable"
	"kelson.dev/internal/require"
)

// A missing folder is an error, and so is a folder that cannot be synced because it was closed.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	if err := durable.Folder(dir); err != nil {
		t.Errorf("a folder: %v, want no error", err)
	}
	if err := durable.Folder(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: %v, want %v", err, fs.ErrNotExist)
	}
	f, err := os.Open(dir)
	require.NoError(t, err)
	_ = f.Close()
	if err := durable.OpenFolder(f); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed folder: %v, want %v", err, os.ErrClosed)
	}
}
