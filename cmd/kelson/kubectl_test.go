package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

// A plugin that calls $KUBECTL_PATH runs this kubectl.
func TestPluginsGetKubectlPath(t *testing.T) {
	dir := t.TempDir()
	if got := command(t, nil, built(t, binary), "envtest", dir); got.code != 0 {
		t.Fatal(got)
	}
	script := "#!/bin/sh\necho \"$KUBECTL_PATH $*\"\n\"$KUBECTL_PATH\" version --client\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kubectl-which"), []byte(script), 0o755))
	env := []string{"PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH"), "KUBECTL_PATH=of another"}
	got := command(t, env, filepath.Join(dir, "kubectl"), "which", "one", "--two")
	wantContains(t, "plugin", got.stdout, filepath.Join(dir, "kubectl")+" one --two\n", "Client Version:")
	if strings.Contains(got.stdout, "of another") || got.code != 0 {
		t.Error(got)
	}
}

// With --v, kubectl also logs what it does before it parses flags.
func TestVerbosityHoldsFromTheStart(t *testing.T) {
	dir := t.TempDir()
	kuberc := filepath.Join(dir, "kuberc")
	require.NoError(t, os.WriteFile(kuberc, nil, 0o600))
	got := command(t, nil, built(t, binary), "kubectl", "config", "view", "--kubeconfig", filepath.Join(dir, "none"),
		"--kuberc", kuberc, "-v=5")
	wantContains(t, "log", got.stderr, "kuberc: no preferences found in")
}

// kubectl keeps the documents about the API on disk. It explains a kind whose definition was
// applied right after it read them, also within the same second.
func TestExplainAfterApply(t *testing.T) {
	require.Long(t, "takes seconds")
	s := startServer(t, "--in-memory", "--kubeconfig", filepath.Join(t.TempDir(), "kubeconfig"))
	env := []string{"KUBECONFIG=" + s.kubeconfig, "HOME=" + t.TempDir()}
	kubectl := func(args ...string) string {
		t.Helper()
		got := command(t, env, built(t, kubectlBinary), args...)
		if got.code != 0 {
			t.Errorf("kubectl %s: exit %d\n%s%s", strings.Join(args, " "), got.code, got.stdout, got.stderr)
		}
		return got.stdout
	}
	kubectl("explain", "pods.spec")
	for _, kind := range []string{"Apple", "Pear", "Plum", "Quince", "Cherry"} {
		name := strings.ToLower(kind)
		file := filepath.Join(t.TempDir(), name+".yaml")
		definition := strings.NewReplacer("PLURAL", name+"s", "KIND", kind).Replace(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.fruit.example.com}
spec:
  group: fruit.example.com
  scope: Namespaced
  names: {plural: PLURAL, kind: KIND}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, description: The KIND itself.}}}}
`)
		require.NoError(t, os.WriteFile(file, []byte(definition), 0o600))
		kubectl("apply", "-f", file)
		wantContains(t, "explain", kubectl("explain", name+".spec"), "KIND:       "+kind, "The "+kind+" itself.")
	}
}
