package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// BuildLocal downloads nothing: it omits remote entries in every kustomization of the tree.
func TestBuildLocal(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"top/kustomization.yaml":  "namePrefix: a-\nresources: [../base, https://example.invalid/a.yaml]\n",
		"base/kustomization.yaml": "resources: [map.yaml, 'github.com/example/b//config?ref=v1']\n",
		"base/map.yaml":           "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\n",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	objects, remote, err := BuildLocal(filepath.Join(dir, "top"))
	if err != nil || len(objects) != 1 || objects[0].GetName() != "a-map" {
		t.Fatalf("built %v: %v", objects, err)
	}
	slices.Sort(remote)
	if !slices.Equal(remote, []string{"github.com/example/b//config?ref=v1", "https://example.invalid/a.yaml"}) {
		t.Errorf("omitted %q", remote)
	}
}
