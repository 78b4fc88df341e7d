package nodes_test

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

// writeImage writes an image with one layer to an archive that containerd imports. files are the
// contents of /bin by name; links are links to the first one.
func writeImage(t *testing.T, archive, name string, entrypoint []string, program string, links []string) {
	t.Helper()
	dir := t.TempDir()
	layer := filepath.Join(dir, "layer.tar")
	writeTar(t, layer, func(w *tar.Writer) {
		for _, d := range []string{"bin/", "tmp/", "etc/"} {
			header(t, w, &tar.Header{Typeflag: tar.TypeDir, Name: d, Mode: 0o1777})
		}
		base := filepath.Base(program)
		add(t, w, "bin/"+base, program)
		for _, l := range links {
			if l != base {
				header(t, w, &tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + l, Linkname: base, Mode: 0o777})
			}
		}
	})
	content, err := os.ReadFile(layer)
	require.NoError(t, err)
	config := writeJSON(t, dir, "config.json", map[string]any{
		"architecture": goarch(t), "os": "linux",
		"config": map[string]any{"Entrypoint": entrypoint, "Env": []string{"PATH=/bin"}},
		"rootfs": map[string]any{"type": "layers",
			"diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(content))}},
	})
	manifest := writeJSON(t, dir, "manifest.json",
		[]map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	writeTar(t, archive, func(w *tar.Writer) {
		for _, f := range []string{manifest, config, layer} {
			add(t, w, filepath.Base(f), f)
		}
	})
}

func writeTar(t *testing.T, name string, fill func(*tar.Writer)) {
	t.Helper()
	f, err := os.Create(name)
	require.NoError(t, err)
	w := tar.NewWriter(f)
	fill(w)
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
}

func header(t *testing.T, w *tar.Writer, h *tar.Header) {
	t.Helper()
	require.NoError(t, w.WriteHeader(h))
}

func add(t *testing.T, w *tar.Writer, name, file string) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	header(t, w, &tar.Header{Name: name, Mode: 0o755, Size: info.Size()})
	_, err = io.Copy(w, f)
	require.NoError(t, err)
}

func writeJSON(t *testing.T, dir, name string, value any) string {
	t.Helper()
	content, err := json.Marshal(value)
	require.NoError(t, err)
	name = filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(name, content, 0o600))
	return name
}

func goarch(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOARCH").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// pauseProgram is the program in the sandbox of a pod.
const pauseProgram = `package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}
`

// writeImages writes the images of the tests, without a network: the sandbox's, and busybox.
func writeImages(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	src := filepath.Join(t.TempDir(), "pause.go")
	require.NoError(t, os.WriteFile(src, []byte(pauseProgram), 0o600))
	pause := filepath.Join(filepath.Dir(src), "pause")
	build := exec.Command("go", "build", "-o", pause, src)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build pause: %v\n%s", err, out)
	}
	writeImage(t, filepath.Join(dir, "pause.tar"), "registry.k8s.io/pause:3.10.1", []string{"/bin/pause"}, pause, nil)

	busybox, err := exec.LookPath("busybox")
	require.NoError(t, err)
	applets, err := exec.Command(busybox, "--list").Output()
	require.NoError(t, err)
	writeImage(t, filepath.Join(dir, "busybox.tar"), "docker.io/library/busybox:test", nil, busybox,
		strings.Fields(string(applets)))
	return dir
}
