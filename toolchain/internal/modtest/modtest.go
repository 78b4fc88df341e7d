// Package modtest opens modules for tests of the generators.
package modtest

import (
	"os"
	"path/filepath"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/toolchain/loader"
)

// Open writes the files of a module, by name, to a new directory and opens it. paths select
// packages, as in [loader.Config].
func Open(t *testing.T, files map[string]string, paths ...string) (dir string, ws *loader.Workspace) {
	t.Helper()
	t.Setenv("GOWORK", "off")
	dir = t.TempDir()
	for name, content := range files {
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(content), 0o644))
	}
	ws, err := loader.Open(t.Context(), loader.Config{Dir: dir, Paths: paths})
	require.NoError(t, err)
	return dir, ws
}
