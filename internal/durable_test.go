package internal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/durable"
	"kelson.dev/internal/require"
)

// A missing folder is an error, and so is a folder that cannot be synced because it was closed.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	if err := durable.Folder(dir); err != nil {
		t.Errorf("a folder: %v, want no error", err)
	}
	assert.ErrorIsf(t, durable.Folder(filepath.Join(dir, "none")), fs.ErrNotExist, "a missing folder")
	f, err := os.Open(dir)
	require.NoError(t, err)
	_ = f.Close()
	assert.ErrorIsf(t, durable.OpenFolder(f), os.ErrClosed, "a closed folder")
}
