package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/image"
)

// repository creates a git repository with files and one commit.
func repository(t *testing.T, files map[string]string) (dir string, git func(args ...string)) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		write(t, filepath.Join(dir, name), content)
	}
	git = func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-11-24T01:02:03+01:00")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "one")
	return dir, git
}

func write(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(content), 0o644))
}

// The version is the commit's tag, or a pseudo-version after the newest tag; files that are not
// committed are omitted.
func TestExport(t *testing.T) {
	dir, git := repository(t, map[string]string{"a/b.txt": "one"})
	exported := func(version string) (*source, error) {
		return export(t.Context(), dir, filepath.Join(t.TempDir(), "source"), version)
	}
	s, err := exported("")
	require.NoError(t, err)
	if want := "v0.0.0-20261124000203-" + s.commit[:12]; s.version != want || s.uncommitted != 0 ||
		s.at.Format(time.RFC3339) != "2026-11-24T00:02:03Z" {
		t.Errorf("version %s at %s, want %s", s.version, s.at, want)
	}
	git("tag", "v1.2.3")
	git("tag", "operator/v9.9.9")
	write(t, filepath.Join(dir, "a/b.txt"), "two")
	write(t, filepath.Join(dir, "c.txt"), "three")
	if s, err = exported(""); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(s.dir, "a/b.txt")); s.version != "v1.2.3" || s.uncommitted != 2 ||
		string(content) != "one" || err != nil {
		t.Errorf("version %s with %d uncommitted files, content %q, %v", s.version, s.uncommitted, content, err)
	}
	git("add", ".")
	git("commit", "-q", "-m", "two")
	if s, err = exported(""); err != nil || s.version != "v1.2.4-0.20261124000203-"+s.commit[:12] {
		t.Errorf("version %v, %v", s, err)
	}
	for _, wrong := range []string{"1.0.0", "v1.0", "newest"} {
		if _, err := exported(wrong); err == nil || !strings.Contains(err.Error(), "semantic version") {
			t.Errorf("version %q: %v", wrong, err)
		}
	}
}

// Published modules require each other at the version of the release, without replace directives,
// and have no files of modules below them.
func TestModules(t *testing.T) {
	const mod = "module kelson.dev\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/api v0.37.2\n\tkelson.dev/operator v0.0.0 // indirect\n)\n\nreplace kelson.dev/operator => ./operator\n"
	got, err := publishedMod([]byte(mod), "v1.2.3")
	const want = "module kelson.dev\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/api v0.37.2\n\tkelson.dev/operator v1.2.3 // indirect\n)\n"
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	if _, err := publishedMod([]byte(mod+"\nreplace k8s.io/api => ../api\n"), "v1.2.3"); err == nil {
		t.Error("published a module that replaces another project's")
	}

	dir, _ := repository(t, map[string]string{"go.mod": mod, "a.go": "package a",
		"operator/go.mod": "module kelson.dev/operator", "operator/b.go": "package b", "testdata/c.txt": "c"})
	require.NoError(t, os.Symlink("a.go", filepath.Join(dir, "link.go")))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, ".git")))
	files, err := moduleFiles(dir, got, []byte("the license"))
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "m.zip")
	out, err := os.Create(name)
	require.NoError(t, err)
	v := module.Version{Path: "kelson.dev", Version: "v1.2.3"}
	require.NoError(t, modzip.Create(out, v, files))
	require.NoError(t, out.Close())
	unpacked := filepath.Join(t.TempDir(), "m")
	require.NoError(t, modzip.Unzip(unpacked, v, name))
	var names []string
	for _, entry := range []string{"LICENSE", "a.go", "go.mod", "link.go", "operator/b.go", "testdata/c.txt"} {
		if _, err := os.Stat(filepath.Join(unpacked, entry)); err == nil {
			names = append(names, entry)
		}
	}
	if strings.Join(names, " ") != "LICENSE a.go go.mod testdata/c.txt" {
		t.Errorf("the module has %v", names)
	}
	if published, err := os.ReadFile(filepath.Join(unpacked, "go.mod")); err != nil || string(published) != want {
		t.Errorf("go.mod: %v\n%s", err, published)
	}
}

// Archives have the commit's time, and are equal for equal files.
func TestArchives(t *testing.T) {
	at := time.Date(2026, 11, 24, 1, 2, 4, 0, time.UTC)
	files := []file{{name: "kelson", mode: 0o755, content: []byte("program")},
		{name: "man/man1/kelson.1", mode: 0o644, content: []byte("page")}}
	for _, write := range []func(string, time.Time, []file) error{writeTarball, writeZip} {
		var contents [2][]byte
		for i := range contents {
			name := filepath.Join(t.TempDir(), "archive")
			require.NoError(t, write(name, at, files))
			var err error
			if contents[i], err = os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(contents[0], contents[1]) {
			t.Error("two archives differ")
		}
		if r, err := zip.NewReader(bytes.NewReader(contents[0]), int64(len(contents[0]))); err == nil {
			if f := r.File[0]; f.Name != "kelson" || f.Mode() != 0o755 || !f.Modified.Equal(at) {
				t.Errorf("zip: %+v", f.FileHeader)
			}
			continue
		}
		packed, err := gzip.NewReader(bytes.NewReader(contents[0]))
		require.NoError(t, err)
		r := tar.NewReader(packed)
		h, err := r.Next()
		if err != nil || h.Name != "kelson" || h.Mode != 0o755 || !h.ModTime.Equal(at) || h.Uid != 0 {
			t.Errorf("tar: %+v, %v", h, err)
		}
		if content, err := io.ReadAll(r); err != nil || string(content) != "program" {
			t.Errorf("content %q, %v", content, err)
		}
	}
}

// Licenses are found by their texts, at a package's folder and above it; unknown ones are an error
// elsewhere.
func TestLicenses(t *testing.T) {
	namer, err := newNamer()
	require.NoError(t, err)
	apache, err := os.ReadFile("../LICENSE")
	require.NoError(t, err)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "LICENSE"), string(apache))
	write(t, filepath.Join(dir, "third_party", "forked", "COPYING.md"), "the terms of another project")
	write(t, filepath.Join(dir, "other", "LICENSE"), "not linked")
	write(t, filepath.Join(dir, "license.go"), "package license")
	write(t, filepath.Join(dir, "LICENSE.docs"), "for the documentation")
	m := &licensed{path: "example.com/m"}
	require.NoError(t, m.read(dir, filepath.Join(dir, "third_party", "forked", "json"),
		map[string]bool{filepath.Join(dir, "third_party", "forked", "json"): true}))
	assert.Equalf(t, len(m.texts), 0, "read a folder that was seen")
	require.NoError(t, m.read(dir, filepath.Join(dir, "third_party", "forked"), map[string]bool{}))
	var names []string
	for _, text := range m.texts {
		names = append(names, text.name)
	}
	slices.Sort(names)
	if strings.Join(names, " ") != "licenses/example.com/m/LICENSE licenses/example.com/m/third_party/forked/COPYING.md" {
		t.Errorf("found %v", names)
	}
	assert.Slicef(t, namer.names(apache), []string{"Apache-2.0"}, "the license of this repository")
	assert.Lenf(t, namer.names([]byte("the terms of another project")), 0, "a text without a license")
}

func TestPlatforms(t *testing.T) {
	got, err := parsePlatforms("linux/amd64, windows/arm64")
	if err != nil || !slices.Equal(got, []image.Platform{{OS: "linux", Architecture: "amd64"},
		{OS: "windows", Architecture: "arm64"}}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, wrong := range []string{"", "linux", "linux/", "linux/amd64/v2", "linux/amd64,linux/amd64"} {
		if _, err := parsePlatforms(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// The formula has the archives that exist, and only the systems of those.
func TestFormula(t *testing.T) {
	data := struct {
		about
		MacOS, Linux bool
	}{about{Version: "v1.2.3", Number: "1.2.3", URL: "https://example.com/v1.2.3",
		Sums: map[string]string{"darwin-arm64": "abc"}}, true, false}
	text, err := execute(formula, data)
	require.NoError(t, err)
	for _, want := range []string{`version "1.2.3"`,
		"on_macos do\n    on_arm do\n      url \"https://example.com/v1.2.3/kelson-darwin-arm64.tar.gz\"\n      sha256 \"abc\"\n    end\n  end\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the formula lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "on_linux") || strings.Contains(string(text), "on_intel") {
		t.Errorf("the formula has platforms without an archive:\n%s", text)
	}
}
