package scaffold

import (
	"bytes"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"kelson.dev/internal/require"
)

// filledIn matches files that users complete or generators write, and files of the module root,
// which the examples share.
var filledIn = []string{
	"README.md", "cmd/main.go", "api/*/*.go", "internal/*/*.go", "internal/webhook/*/*.go", "config/samples/*.yaml",
	"config/rbac/role.yaml",
	"config/webhook/manifests.yaml", "config/crd/bases/.gitkeep", ".golangci.yml", "Dockerfile", ".dockerignore",
}

// notAsMade lists the other files in which examples differ from kelson init and create, with
// reasons.
var notAsMade = map[string]map[string]string{
	"foobar":          {"config/manager/manager.yaml": "the program has no flags, and no probes"},
	"ingress-manager": {"config/manager/manager.yaml": "the program has no flags, and no probes"},
	"projectconfig": {
		"config/manager/kustomization.yaml": "generates a ConfigMap from the configuration",
		"config/manager/manager.yaml":       "mounts the ConfigMap, which has the settings instead of flags",
	},
}

// kelson upgrade changes nothing in the examples: except for the listed files, they equal what
// kelson init and kelson create write.
func TestExamplesFollowTheTemplate(t *testing.T) {
	projects, err := filepath.Glob("../../examples/*/" + ProjectFile)
	if err != nil || len(projects) < 10 {
		t.Fatalf("only %d examples: %v", len(projects), err)
	}
	for _, project := range projects {
		dir := filepath.Dir(project)
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			w, err := open(dir)
			require.NoError(t, err)
			if v := w.project.template(); v != templateVersion {
				t.Fatalf("its template version is %d, not %d: run kelson upgrade examples/%s", v, templateVersion, name)
			}
			files, err := w.replayed(templateVersion, w.project.values(), templateOf)
			require.NoError(t, err)
			for _, file := range slices.Sorted(maps.Keys(files)) {
				if slices.ContainsFunc(filledIn, func(p string) bool { ok, _ := path.Match(p, file); return ok }) {
					continue
				}
				have, err := os.ReadFile(filepath.Join(dir, file))
				same := err == nil && bytes.Equal(have, files[file])
				if _, differs := notAsMade[name][file]; same == differs {
					t.Errorf("%s: equals the template: %t (%v)", file, same, err)
				}
			}
		})
	}
}
