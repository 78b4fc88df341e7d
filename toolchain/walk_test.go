package toolchain_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/walk"
)

func TestDir(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"real/a/file", "real/skipped/file", "outside/file", "outside/.hidden", ".file"} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, nil, 0o600))
	}
	for link, target := range map[string]string{"link": "real", "second": "link", "real/inner": "../outside"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skip(err) // Windows without the privilege
		}
	}
	t.Chdir(dir)
	names := func(root string) (all []string) {
		t.Helper()
		err := walk.Dir(root, func(name string, d fs.DirEntry, err error) error {
			if d != nil && d.Name() == "skipped" {
				return fs.SkipDir
			}
			all = append(all, filepath.ToSlash(name))
			return err
		})
		assert.NoError(t, err)
		return all
	}
	for root, want := range map[string][]string{
		"real":       {"real", "real/a", "real/a/file", "real/inner"},
		"link":       {"link", "link/a", "link/a/file", "link/inner"},
		"second":     {"second", "second/a", "second/a/file", "second/inner"},
		"real/inner": {"real/inner", "real/inner/.hidden", "real/inner/file"},
		".": {".", ".file", "link", "outside", "outside/.hidden", "outside/file", "real", "real/a",
			"real/a/file", "real/inner", "second"},
	} {
		assert.Slicef(t, names(root), want, "%s", root)
	}
	err := walk.Dir("absent", func(name string, _ fs.DirEntry, err error) error {
		assert.Equalf(t, name, "absent", "visited")
		return err
	})
	assert.ErrorIs(t, err, fs.ErrNotExist)
}
