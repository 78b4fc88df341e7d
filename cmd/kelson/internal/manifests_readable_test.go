package internal_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/internal/require"
)

// A broken file, or a kustomization that lists a missing one, does not hide the other samples.
func TestReadableSamples(t *testing.T) {
	const broken = "kind: Broken\n a: [\n"
	object := func(name string) string { return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n" }
	for _, test := range []struct {
		name    string
		files   map[string]string
		samples []string
		errors  []string
	}{
		{"none", nil, nil, nil},
		{"valid", map[string]string{"a.yaml": object("a"), "notes.yaml": "# only a comment\n"}, []string{"a"}, nil},
		{"a broken file", map[string]string{"a.yaml": object("a"), "b.yaml": broken, "c.yaml": object("c")},
			[]string{"a", "c"}, []string{"b.yaml"}},
		{"only a broken file", map[string]string{"b.yaml": broken}, nil, []string{"b.yaml"}},
		{"a kustomization with a broken file", map[string]string{"kustomization.yaml": "resources: [a.yaml, b.yaml]",
			"a.yaml": object("a"), "b.yaml": broken, "patch.yaml": object("patch")}, []string{"a"},
			[]string{"build ", "b.yaml"}},
		{"a kustomization with a missing file", map[string]string{"kustomization.yaml": "resources: [a.yaml, b.yaml]",
			"a.yaml": object("a")}, []string{"a"}, []string{"b.yaml does not exist"}},
		{"a kustomization with missing files", map[string]string{"kustomization.yaml": "resources: [b.yaml]",
			"other.yaml": object("other"), "more/c.yaml": object("c")}, []string{"other"},
			[]string{"b.yaml does not exist"}},
		{"samples in a folder", map[string]string{"kustomization.yaml": "resources: [b.yaml]", "more/c.yaml": object("c"),
			"more/kustomization.yaml": "resources: [c.yaml]"}, []string{"c"}, []string{"b.yaml does not exist"}},
	} {
		dir := t.TempDir()
		require.Files(t, filepath.Join(dir, "config", "samples"), test.files)
		all, err := manifests.ReadableSamples(dir)
		var names []string
		for _, obj := range all {
			names = append(names, obj.GetName())
		}
		if !slices.Equal(names, test.samples) || (err == nil) != (test.errors == nil) {
			t.Errorf("%s: %q: %v", test.name, names, err)
			continue
		}
		for _, part := range test.errors {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error lacks %q: %v", test.name, part, err)
			}
		}
	}
}
