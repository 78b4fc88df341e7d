package serve

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kelson.dev/apiserver/pki"
	"kelson.dev/internal/require"
)

// A server whose disk is full starts with the kubeconfig of its previous start, if that is for the
// same URL and authority.
func TestKubeconfigOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("SKIPPED: needs the right to mount: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	authority, err := pki.NewAuthority("kelson-ca")
	require.NoError(t, err)
	const url = "https://127.0.0.1:6443"
	file := filepath.Join(dir, "kubeconfig")
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	if err := provideKubeconfig(file, url, authority, log); err != nil || logged.Len() > 0 {
		t.Fatal(err, logged.String())
	}
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 128<<10), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	if err := provideKubeconfig(file, url, authority, log); err != nil ||
		!strings.Contains(logged.String(), "no space left") {
		t.Error(err, logged.String())
	}
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(before, now) {
		t.Error("the kubeconfig changed", err)
	}
	other, err := pki.NewAuthority("kelson-ca")
	require.NoError(t, err)
	if provideKubeconfig(file, "https://127.0.0.1:6444", authority, log) == nil ||
		provideKubeconfig(file, url, other, log) == nil {
		t.Error("a start without a usable kubeconfig succeeded")
	}
}
