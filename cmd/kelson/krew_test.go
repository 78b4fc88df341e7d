package main

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

// Krew installs the plugin from the manifest that krew-manifest writes and an archive, without a
// network, and kubectl finds the plugin.
func TestKrewInstallsThePlugin(t *testing.T) {
	krew := os.Getenv("KREW")
	if krew == "" {
		t.Skip("SKIPPED: KREW is not set to the krew binary; make krew runs this test")
	}
	kelson := built(t, binary)
	dir := t.TempDir()
	archive := filepath.Join(dir, fmt.Sprintf("kelson-%s-%s.tar.gz", runtime.GOOS, runtime.GOARCH))
	pack(t, archive, map[string]string{"kelson": kelson, "LICENSE": "../../LICENSE"})
	manifest := filepath.Join(dir, "kelson.yaml")
	got := command(t, nil, kelson, "kubectl-plugin", "krew-manifest", "--version", "v0.0.1", "--url",
		"https://releases.example/v0.0.1", archive)
	require.Equalf(t, got.code, 0, "%v", got.stderr)
	require.NoError(t, os.WriteFile(manifest, []byte(got.stdout), 0o600))
	root := filepath.Join(dir, "root")
	env := []string{"KREW_ROOT=" + root, "HOME=" + dir, "KREW_NO_UPGRADE_CHECK=1",
		"PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH")}
	if got := command(t, env, krew, "install", "--manifest", manifest, "--archive", archive); got.code != 0 ||
		!strings.Contains(got.stderr, "Installed plugin: kelson") {
		t.Fatalf("krew install: %+v", got)
	}
	got = command(t, env, built(t, kubectlBinary), "kelson", "vet", "--help")
	if got.code != 0 || !strings.Contains(got.stdout, "kubectl kelson vet") {
		t.Errorf("kubectl kelson vet --help: %+v", got)
	}
	if got := command(t, env, built(t, kubectlBinary), "plugin", "list"); !strings.Contains(got.stdout,
		filepath.Join(root, "bin", "kubectl-kelson")) {
		t.Errorf("kubectl plugin list: %+v", got)
	}
	// Krew refuses a changed archive.
	pack(t, archive, map[string]string{"kelson": "../../LICENSE", "LICENSE": "../../LICENSE"})
	if got := command(t, append(env, "KREW_ROOT="+filepath.Join(dir, "other")), krew, "install", "--manifest", manifest,
		"--archive", archive); got.code == 0 || !strings.Contains(got.stderr, "checksum does not match") {
		t.Errorf("krew install of another archive: %+v", got)
	}
}

// pack writes a tar.gz with files.
func pack(t *testing.T, archive string, files map[string]string) {
	t.Helper()
	f, err := os.Create(archive)
	require.NoError(t, err)
	defer f.Close()
	compressed, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	require.NoError(t, err)
	w := tar.NewWriter(compressed)
	for name, path := range files {
		from, err := os.Open(path)
		require.NoError(t, err)
		info, err := from.Stat()
		require.NoError(t, err)
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: info.Size()}))
		_, err = io.Copy(w, from)
		require.NoError(t, err)
		from.Close()
	}
	require.NoError(t, w.Close())
	require.NoError(t, compressed.Close())
}
