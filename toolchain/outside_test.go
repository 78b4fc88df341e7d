package toolchain_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain"
)

// Nothing is written outside of the project: neither where options say, nor behind links.
func TestNothingIsWrittenOutside(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, dir string, opts *toolchain.Options){
		"an output": func(_ *testing.T, _ string, opts *toolchain.Options) {
			opts.Settings = map[string]toolchain.Settings{"crd": {Output: "../victim"}}
		},
		"a moved file": func(_ *testing.T, dir string, opts *toolchain.Options) {
			opts.Move = []toolchain.Move{{From: filepath.Join(dir, "config/crd/*.yaml"),
				To: filepath.Join(dir, "../victim/*")}}
		},
		"a linked folder": func(t *testing.T, dir string, _ *toolchain.Options) {
			link(t, "../victim", filepath.Join(dir, "config"))
		},
		"a linked file": func(t *testing.T, dir string, _ *toolchain.Options) {
			write(t, dir, "../victim/role.yaml", "kind: Role\n")
			write(t, dir, "config/crd/keep", "")
			link(t, "../../../victim/role.yaml", filepath.Join(dir, shapesFile))
		},
	} {
		t.Run(name, func(t *testing.T) {
			project := aliased(t, "")
			dir := filepath.Join(project, "shared", "..", "project")
			require.NoError(t, os.Mkdir(dir, 0o755))
			for _, f := range []string{"go.mod", "api", "shared"} {
				require.NoError(t, os.Rename(filepath.Join(project, f), filepath.Join(dir, f)))
			}
			victim := filepath.Join(project, "victim")
			require.NoError(t, os.Mkdir(victim, 0o755))
			opts := toolchain.Options{Dir: dir, Generators: []string{"crd"}, Within: dir}
			prepare(t, dir, &opts)
			before, _ := os.ReadDir(victim)
			_, err := toolchain.Generate(t.Context(), opts)
			outside := new(toolchain.OutsideError)
			if !errors.As(err, &outside) {
				t.Errorf("error %v", err)
			}
			if data, err := os.ReadFile(filepath.Join(victim, "role.yaml")); err == nil &&
				string(data) != "kind: Role\n" {
				t.Errorf("overwritten: %s", data)
			}
			if after, err := os.ReadDir(victim); err != nil || len(after) != len(before) {
				t.Errorf("files outside: %v %v", after, err)
			}
			opts.Within = project
			_, err = toolchain.Generate(t.Context(), opts)
			assert.NoErrorf(t, err, "within the parent")
		})
	}
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Skip(err) // Windows permits links only to some users
	}
}
