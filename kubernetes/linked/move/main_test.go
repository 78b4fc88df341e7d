package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

func TestReplace(t *testing.T) {
	old, next := versions{"v1.37.1", "v0.37.2"}, versions{"v1.38.0", "v0.38.0"}
	for text, want := range map[string]string{
		"\tk8s.io/kubernetes v1.37.1\n":        "\tk8s.io/kubernetes v1.38.0\n",
		"\tk8s.io/api v0.37.2 // indirect\n":   "\tk8s.io/api v0.38.0 // indirect\n",
		"const Kubernetes = \"1.37.1\"\n":      "const Kubernetes = \"1.38.0\"\n",
		"kubelet 1.37.1 panics when":           "kubelet 1.37.1 panics when",
		"k8s.io/kubernetes v1.37.10, v0.37.20": "k8s.io/kubernetes v1.37.10, v0.37.20",
		"serves Kubernetes v1.37.1.":           "serves Kubernetes v1.38.0.",
	} {
		assert.Equalf(t, replace(text, old, next), want, "%q", text)
	}
}

func TestParse(t *testing.T) {
	if v, err := parse("v1.38.0-beta.0"); err != nil || v.libraries != "v0.38.0-beta.0" {
		t.Errorf("%v, %v", v, err)
	}
	for _, wrong := range []string{"", "1.38.0", "v1.38", "v0.38.0", "v1.38.0+x"} {
		_, err := parse(wrong)
		assert.ErrorContainsf(t, err, "is not a version of Kubernetes", "%q", wrong)
	}
}

// The command leaves records of what was measured alone, and changes texts.
func TestRewrite(t *testing.T) {
	dir := t.TempDir()
	old, next := versions{"v1.37.1", "v0.37.2"}, versions{"v1.38.0", "v0.38.0"}
	for name, want := range map[string]bool{
		"README.md": true, "go.mod": true, "go.sum": false, "CHANGELOG.md": false,
		"docs/internals/benchmarks.md": false,
	} {
		path := filepath.Join(dir, filepath.Base(name))
		require.NoError(t, os.WriteFile(path, []byte("v1.37.1"), 0o600))
		if changed, err := rewrite(path, name, old, next); err != nil || changed != want {
			t.Errorf("%s: changed %v, %v", name, changed, err)
		}
	}
	path := filepath.Join(dir, "go.mod")
	const mod = "require (\n\tk8s.io/api v0.36.0 // indirect\n\tk8s.io/utils v0.0.0-20260626114624-be93311217bd\n\tk8s.io/klog/v2 v2.140.0\n)\n"
	require.NoError(t, os.WriteFile(path, []byte(mod), 0o600))
	_, err := rewrite(path, "cmd/go.mod", old, next)
	if got, _ := os.ReadFile(path); err != nil || string(got) != strings.Replace(mod, "v0.36.0", "v0.38.0", 1) {
		t.Errorf("a library at another version: %v\n%s", err, got)
	}
	if changed, err := rewrite(filepath.Join(dir, "removed"), "removed", old, next); changed || err != nil {
		t.Errorf("a file that the work tree lacks: %v, %v", changed, err)
	}
}
