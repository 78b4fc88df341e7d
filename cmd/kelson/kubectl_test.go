package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// CLI-05: a plugin that calls $KUBECTL_PATH runs this kubectl.
func TestPluginsGetKubectlPath(t *testing.T) {
	dir := t.TempDir()
	if got := command(t, nil, built(t, binary), "envtest", dir); got.code != 0 {
		t.Fatal(got)
	}
	script := "#!/bin/sh\necho \"$KUBECTL_PATH $*\"\n\"$KUBECTL_PATH\" version --client\n"
	if err := os.WriteFile(filepath.Join(dir, "kubectl-which"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH"), "KUBECTL_PATH=of another"}
	got := command(t, env, filepath.Join(dir, "kubectl"), "which", "one", "--two")
	wantContains(t, "plugin", got.stdout, filepath.Join(dir, "kubectl")+" one --two\n", "Client Version:")
	if strings.Contains(got.stdout, "of another") || got.code != 0 {
		t.Error(got)
	}
}

// CLI-05: with --v, kubectl also logs what it does before it parses flags.
func TestVerbosityHoldsFromTheStart(t *testing.T) {
	dir := t.TempDir()
	kuberc := filepath.Join(dir, "kuberc")
	if err := os.WriteFile(kuberc, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := command(t, nil, built(t, binary), "kubectl", "config", "view", "--kubeconfig", filepath.Join(dir, "none"), "--kuberc", kuberc, "-v=5")
	wantContains(t, "log", got.stderr, "kuberc: no preferences found in")
}
