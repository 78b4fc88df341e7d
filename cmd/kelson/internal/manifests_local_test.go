package internal_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/internal/require"
)

// folderOf returns a folder with the files.
func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	require.Files(t, dir, files)
	return dir
}

// A build that fails for a missing file names the file, the entry that lists it, and the next step.
func TestBuildNamesMissingFile(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"definitions of a project without kinds": {
			map[string]string{"top/kustomization.yaml": "bases: [../crd]\n"},
			"build DIR/top: DIR/crd does not exist, but kustomization.yaml lists ../crd: kelson create api adds a kind and the folder; in a project without kinds, remove the line",
		},
		"a patch of an included folder": {
			map[string]string{
				"top/kustomization.yaml": "resources: [../base, 'https://example.invalid/a.yaml']\n",
				"base/kustomization.yml": "patches: [{path: gone.yaml, target: {kind: Deployment}}, {patch: 'a: 1', target: {kind: Deployment}}]\nresources: [../top]\n",
			},
			"build DIR/base: DIR/base/gone.yaml does not exist, but kustomization.yml lists gone.yaml: create it, or remove the line",
		},
		"a generated role": {
			map[string]string{"top/kustomization.yaml": "resources: [../rbac]\n", "rbac/kustomization.yaml": "resources: [role.yaml]\n"},
			"build DIR/rbac: DIR/rbac/role.yaml does not exist, but kustomization.yaml lists role.yaml: kelson generate writes it from markers +kubebuilder:rbac; without such markers, remove the line",
		},
		"a generated definition": {
			map[string]string{"top/kustomization.yaml": "resources: [../crd]\n", "crd/kustomization.yaml": "resources: [bases/a.yaml]\n"},
			"lists bases/a.yaml: kelson generate writes it from a type",
		},
		"generated webhooks": {
			map[string]string{"top/kustomization.yaml": "resources: [../webhook]\n", "webhook/kustomization.yaml": "resources: [manifests.yaml]\n"},
			"lists manifests.yaml: kelson generate writes it from markers +kubebuilder:webhook",
		},
		"a file of a secret": {
			map[string]string{"top/kustomization.yaml": "secretGenerator: [{name: a, envs: [.env]}]\n"},
			"DIR/top/.env does not exist, but kustomization.yaml lists .env: create it, or remove the line",
		},
		"a file of a config map": {
			map[string]string{"top/kustomization.yaml": "configMapGenerator: [{name: a, files: [key=gone.txt]}]\n"},
			"DIR/top/gone.txt does not exist",
		},
		"another error": {
			map[string]string{"top/kustomization.yaml": "resources: [a.yaml]\nunknown: 1\n", "top/a.yaml": ""},
			"unknown",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folderOf(t, tt.files)
			_, err := manifests.Build(filepath.Join(dir, "top"))
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), dir, "DIR"), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

// BuildLocal downloads nothing: it omits remote entries in every kustomization of the tree, and
// entries that do not exist.
func TestBuildLocal(t *testing.T) {
	dir := folderOf(t, map[string]string{
		"top/kustomization.yaml":  "namePrefix: a-\nresources: [../base, https://example.invalid/a.yaml]\nbases: [../crd]\n",
		"base/kustomization.yaml": "resources: [map.yaml, role.yaml, 'github.com/example/b//config?ref=v1']\n",
		"base/map.yaml":           "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\n",
	})
	objects, omitted, err := manifests.BuildLocal(filepath.Join(dir, "top"))
	if err != nil || len(objects) != 1 || objects[0].GetName() != "a-map" {
		t.Fatalf("built %v: %v", objects, err)
	}
	slices.Sort(omitted.Remote)
	if !slices.Equal(omitted.Remote, []string{"github.com/example/b//config?ref=v1", "https://example.invalid/a.yaml"}) {
		t.Errorf("omitted %q", omitted.Remote)
	}
	missing := errors.Join(omitted.Missing...)
	if len(omitted.Missing) != 2 || !strings.Contains(missing.Error(), "crd does not exist, but kustomization.yaml lists ../crd") ||
		!strings.Contains(missing.Error(), "role.yaml does not exist, but kustomization.yaml lists role.yaml: ") {
		t.Errorf("omitted %v", missing)
	}
	if _, _, err := manifests.BuildLocal(filepath.Join(dir, "none")); err == nil {
		t.Error("it builds a folder that does not exist")
	}
}
