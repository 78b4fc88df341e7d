package agent

import (
	"archive/zip"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// Operators in other folders use the packages that the go command has compiled for the first one,
// also those that depend on a changed module. A workspace and a vendor folder work, too.
func TestSharedPackages(t *testing.T) {
	require.Long(t, "links four programs")
	proxy, modules := t.TempDir(), t.TempDir()
	const version = "example.com/ports/@v/v1.0.0"
	const source = "package ports\n\nimport \"net\"\n\nfunc Open() { _, _ = net.Listen(\"tcp\", \":1\") }\n"
	writeFiles(t, proxy, map[string]string{"example.com/ports/@v/list": "v1.0.0\n",
		version + ".info": `{"Version": "v1.0.0"}`, version + ".mod": "module example.com/ports\n"})
	archive(t, filepath.Join(proxy, version+".zip"), map[string]string{
		"example.com/ports@v1.0.0/go.mod": "module example.com/ports\n", "example.com/ports@v1.0.0/ports.go": source,
		// a package that only depends on the changed one
		"example.com/ports@v1.0.0/all/all.go": "package all\n\nimport \"example.com/ports\"\n\nfunc All() { ports.Open() }\n",
	})
	t.Setenv("GOPROXY", "file://"+filepath.ToSlash(proxy))
	t.Setenv("GOSUMDB", "off")
	t.Setenv("GOMODCACHE", modules)
	t.Setenv("GOWORK", "")
	operator := map[string]string{"go.mod": "module example.com/op\n\ngo 1.20\n\nrequire example.com/ports v1.0.0\n",
		"main.go": "package main\n\nimport \"example.com/ports/all\"\n\nfunc main() { all.All() }\n"}
	shared := t.TempDir()
	build := func(flags string, more map[string]string) (compiled []string) {
		t.Setenv("GOFLAGS", "-modcacherw "+flags)
		dir, cache := t.TempDir(), t.TempDir()
		writeFiles(t, dir, operator)
		writeFiles(t, dir, more)
		p := Program{Dir: dir, Shared: shared, Compiling: func(path string) { compiled = append(compiled, path) }}
		require.NoError(t, p.Build(t.Context(), cache, filepath.Join(cache, "operator")))
		return compiled
	}
	if got := build("-mod=mod", nil); !slices.Contains(got, "example.com/ports/all") {
		t.Errorf("the first build has compiled %q", got)
	}
	if got := build("-mod=mod", nil); !slices.Equal(got, []string{"example.com/op"}) {
		t.Errorf("the second build has compiled %q, want only the main package", got)
	}
	sums, err := os.ReadFile(filepath.Join(modules, "cache/download", version+".ziphash"))
	require.NoError(t, err)
	got := build("", map[string]string{"go.work": "go 1.20\n\nuse .\n", "go.work.sum": "example.com/ports v1.0.0 " +
		string(sums) + "\n"})
	if slices.Contains(got, "example.com/ports") {
		t.Errorf("the build of the workspace has compiled %q", got)
	}
	build("", map[string]string{
		"vendor/modules.txt":                  "# example.com/ports v1.0.0\n## explicit\nexample.com/ports\nexample.com/ports/all\n",
		"vendor/example.com/ports/ports.go":   source,
		"vendor/example.com/ports/all/all.go": "package all\n\nimport \"example.com/ports\"\n\nfunc All() { ports.Open() }\n",
	})
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, data := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(data), 0o600))
	}
}

// archive writes a zip file.
func archive(t *testing.T, name string, files map[string]string) {
	t.Helper()
	var b strings.Builder
	w := zip.NewWriter(&b)
	for name, data := range files {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write([]byte(data))
		}
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	writeFiles(t, filepath.Dir(name), map[string]string{filepath.Base(name): b.String()})
}

// Of the modules of an operator on controller-runtime, the agent changes only two. A changed module
// below client-go would make the first build compile all of client-go again.
func TestChangedModules(t *testing.T) {
	o, err := Program{Dir: "../../bench/explore/fleet/cmd"}.overlay(t.Context(), t.TempDir(), true)
	require.NoError(t, err)
	got := slices.Sorted(maps.Keys(o.moved))
	want := []string{"github.com/fsnotify/fsnotify", "sigs.k8s.io/controller-runtime"}
	assert.Slicef(t, got, want, "the agent changes")
}
