package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// Restoring a backup of a running control plane gives the state at the time of the backup.
func TestBackupAndRestore(t *testing.T) {
	kelson := built(t, binary)
	dir := t.TempDir()
	data, again, backup := filepath.Join(dir, "data"), filepath.Join(dir, "again"), filepath.Join(dir, "kelson.backup")
	s := startServer(t, "--data-dir", data, "--node=none")
	w := newWriter(t, s)
	before, ok := w.create("kept")
	if !ok {
		t.Fatal("not created")
	}
	if got := command(t, nil, kelson, "data", "backup", "--kubeconfig", s.kubeconfig, backup); got.code != 0 ||
		!strings.Contains(got.stdout, "backed up the state at revision") {
		t.Fatalf("%+v", got)
	}
	if info, err := os.Stat(backup); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	if _, ok := w.create("later"); !ok {
		t.Error("not created after the backup")
	}
	for what, args := range map[string][]string{
		"in use by another process": {"check", data},
		"already contains a store":  {"restore", backup, again},
		"ends early":                {"restore", filepath.Join(dir, "short"), filepath.Join(dir, "third")},
		"data directory: ":          {"check", filepath.Join(dir, "nothing")},
	} {
		if what == "already contains a store" {
			if got := command(t, nil, kelson, "data", "restore", backup, again); got.code != 0 ||
				!strings.Contains(got.stdout, "sound: ") {
				t.Fatalf("%+v", got)
			}
		}
		content, err := os.ReadFile(backup)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "short"), content[:len(content)/2], 0o600))
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "nothing"), 0o700))
		got := command(t, nil, kelson, append([]string{"data"}, args...)...)
		if got.code != 1 || !strings.Contains(got.stderr, what) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Error(code, s.stderr)
	}
	offline := filepath.Join(dir, "offline.backup")
	for _, args := range [][]string{{"check", data}, {"backup", "--data-dir", data, offline}} {
		got := command(t, nil, kelson, append([]string{"data"}, args...)...)
		assert.Equalf(t, got.code, 0, "%v: %+v", args, got)
	}

	s = startServer(t, "--data-dir", again, "--node=none")
	w = newWriter(t, s)
	if !w.exists("kept") || w.exists("later") {
		t.Error("the restored control plane does not have the state of the backup")
	}
	after, ok := w.create("new")
	// revisions assigned after the backup are not assigned again
	if !ok || after <= before+1_000_000_000 {
		t.Errorf("revision %d after %d", after, before)
	}
}
