package image_test

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/image"
)

// copied writes a folder with a program, a link and a nested file.
func copied(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "assets")
	require.NoError(t, errors.Join(
		os.MkdirAll(filepath.Join(dir, "mail"), 0o700),
		os.WriteFile(filepath.Join(dir, "mail/hello.tmpl"), []byte("hello"), 0o600),
		os.WriteFile(filepath.Join(dir, "tool"), []byte("#!"), 0o700),
		os.Symlink("tool", filepath.Join(dir, "alias")),
	))
	return dir
}

// Build puts files of the project into a layer of their own. All users may read them.
func TestFiles(t *testing.T) {
	dir := copied(t)
	// The file on disk can be any program, because Build does not run or compile it.
	binary, err := os.Executable()
	require.NoError(t, err)
	cfg := image.Config{Binary: binary, Platforms: both[:1], Files: []image.File{
		{Source: dir, Path: "/assets"}, {Source: filepath.Join(dir, "mail/hello.tmpl"), Path: "/etc/hello"},
		{Source: filepath.Join(dir, "mail"), Path: "/"},
	}}
	built, err := image.Build(t.Context(), cfg)
	require.NoError(t, err)
	manifest, err := built.Index.IndexManifest()
	require.NoError(t, err)
	img, err := built.Index.Image(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	layers, err := img.Layers()
	if err != nil || len(layers) != 3 {
		t.Fatalf("%d layers, want 3: %v", len(layers), err)
	}
	type file struct {
		mode    int64
		content string
	}
	got := map[string]file{}
	content, err := layers[1].Uncompressed()
	require.NoError(t, err)
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		if _, twice := got[h.Name]; twice || h.Uid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%+v (twice: %t)", h, twice)
		}
		got[h.Name] = file{h.Mode, string(text)}
	}
	want := map[string]file{
		"assets/": {0o755, ""}, "assets/mail/": {0o755, ""}, "assets/mail/hello.tmpl": {0o644, "hello"},
		"assets/tool":  {0o755, "#!"},
		"assets/alias": {0o755, "#!"}, "etc/": {0o755, ""}, "etc/hello": {0o644, "hello"},
		"hello.tmpl": {0o644, "hello"},
	}
	for name, f := range want {
		assert.Equalf(t, got[name], f, "%s", name)
	}
	assert.Equalf(t, len(got), len(want), "the layer has %v", got)

	require.NoError(t, os.Symlink("mail", filepath.Join(dir, "folder")))
	for _, bad := range []struct {
		want  string
		files []image.File
	}{
		{"no such file", []image.File{{Source: filepath.Join(dir, "missing"), Path: "/a"}}},
		{"/manager is the program", []image.File{{Source: filepath.Join(dir, "tool"), Path: "/manager"}}},
		{"two files become /a", []image.File{{Source: filepath.Join(dir, "tool"), Path: "/a"},
			{Source: filepath.Join(dir, "mail/hello.tmpl"), Path: "/a"}}},
		{"not an absolute path", []image.File{{Source: dir, Path: "a"}}},
		{"not a file or folder, nor a link to a file", []image.File{{Source: dir, Path: "/a"}}},
		{"not a file or folder, nor a link to a file", []image.File{{Source: "/dev/null", Path: "/a"}}},
	} {
		cfg.Files = bad.files
		_, err := image.Build(t.Context(), cfg)
		assert.ErrorContainsf(t, err, bad.want, "%v", bad.files)
	}
}

func TestParseFile(t *testing.T) {
	for text, want := range map[string]image.File{
		"templates:/templates": {Source: "templates", Path: "/templates"},
		"./a:b:/c/../d/":       {Source: "./a:b", Path: "/d"},
	} {
		if got, err := image.ParseFile(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "a", "a:", ":/a", "a:b"} {
		if got, err := image.ParseFile(text); err == nil {
			t.Errorf("%q: %+v, want an error", text, got)
		}
	}
}
