package gen_test

import (
	"os"
	"path"
	"path/filepath"
	"testing"

	"kelson.dev/internal/require"
)

// newFolder creates a folder of this module that git ignores, and returns it and the import path of
// its package. bin itself does not change, so the go command keeps results of tests that read it.
func newFolder(t *testing.T) (dir, importPath string) {
	t.Helper()
	generated := filepath.Join("..", "..", "bin", "generated")
	require.NoError(t, os.MkdirAll(generated, 0o755))
	dir, err := os.MkdirTemp(generated, "test-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir, path.Join("kelson.dev/bin/generated", filepath.Base(dir))
}
