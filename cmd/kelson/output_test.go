package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

// A command whose output does not fit on the disk fails.
func TestOutputToAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("SKIPPED: no device that is full:", err)
	}
	defer full.Close()
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "printed"))
	require.NoError(t, err)
	defer file.Close()
	for to, want := range map[*os.File]string{full: "kelson: write output: ", file: ""} {
		cmd := exec.Command(built(t, binary), "envtest", "--print-path", filepath.Join(dir, "bin"))
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = to, &stderr
		err := cmd.Run()
		if (err != nil) != (want != "") || !strings.HasPrefix(stderr.String(), want) ||
			strings.Count(stderr.String(), "\n") > 1 {
			t.Errorf("output to %s: %v, %q", to.Name(), err, stderr.String())
		}
	}
	if data, err := os.ReadFile(file.Name()); err != nil ||
		strings.TrimSpace(string(data)) != filepath.Join(dir, "bin") {
		t.Errorf("the file has %q, %v", data, err)
	}
}
