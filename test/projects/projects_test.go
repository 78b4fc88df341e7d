package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// The list is in alphabetical order and names each project once.
func TestList(t *testing.T) {
	var names []string
	for _, p := range projects() {
		if len(p.commit) != 40 || strings.Count(p.repo, "/") != 1 {
			t.Errorf("%+v", p)
		}
		names = append(names, strings.ToLower(p.repo))
	}
	if len(names) < 40 || !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("%d projects: %q", len(names), names)
	}
}

// A chart is compared with the installer in every field, except for what only one of them has.
func TestCompare(t *testing.T) {
	const installer = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: m, namespace: shop}
spec: {replicas: 1, list: [1, 2]}
---
kind: CustomResourceDefinition
metadata: {name: a.b}
`
	for chart, want := range map[string]string{
		"kind: Deployment\napiVersion: apps/v1\nmetadata: {name: m, namespace: shop}\nspec: {replicas: 1, list: [1, 2]}": "",
		"kind: Deployment\napiVersion: apps/v1\nmetadata: {name: m, namespace: shop}\nspec: {replicas: 2, list: [1]}": "" +
			"Deployment shop/m.spec.list is [1] ([]interface {}), not [1 2] ([]interface {})\n" +
			"Deployment shop/m.spec.replicas is 2 (float64), not 1 (float64)",
		"kind: Deployment\napiVersion: apps/v1\nmetadata: {name: m, namespace: shop, labels: {}}\nspec: {list: [1, 3]}\n---\nkind: Secret": "" +
			"Deployment shop/m.metadata.labels is map[], not missing\n" +
			"Deployment shop/m.spec.list[1] is 3 (float64), not 2 (float64)\n" +
			"Deployment shop/m.spec.replicas is missing, not 1\n" +
			"Secret / is only in the chart",
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "install.yaml")
		rendered := chart + "\n---\nkind: CustomResourceDefinition\nmetadata: {name: a.b, annotations: {helm.sh/resource-policy: keep}}\n"
		for name, text := range map[string]string{file: installer,
			filepath.Join(dir, "helm"): "#!/bin/sh\ncat <<'END'\n" + rendered + "END\n"} {
			require.NoError(t, os.WriteFile(name, []byte(text), 0o755))
		}
		got := (&checker{helm: filepath.Join(dir, "helm")}).compare(t.Context(), file, dir)
		if found := strings.TrimPrefix(got.text, "differs from the installer in "); want == "" &&
			got != (cell{true, "2 equal objects"}) || want != "" && !strings.HasSuffix(found, "places: "+want) {
			t.Errorf("%s\ngot  %s\nwant %s", chart, got.text, want)
		}
	}
}

// files writes files, of which those in bin are programs.
func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o755))
	}
	return dir
}

// Files that controller-gen would write as Kelson does are stale; others differ.
func TestRegenerate(t *testing.T) {
	project := files(t, map[string]string{
		"go.mod":   "module example.com/a\n",
		"Makefile": "all:\n\tcontroller-gen crd:trivialVersions=true,maxDescLen=0 rbac:roleName=r paths=./...\n",
	})
	const kelson = `#!/bin/sh
if [ -e role.yaml ]; then echo '3 generated files are up to date'; exit; fi
echo 'kelson: generated files are not up to date: [role.yaml] (run kelson generate .)'
exit 1
`
	for name, tt := range map[string]struct{ controllerGen, want string }{
		"stale": {
			"#!/bin/sh\n[ \"$*\" = 'crd:maxDescLen=0 rbac:roleName=r paths=./...' ] && touch role.yaml\n",
			"stale: role.yaml",
		},
		"differ": {"#!/bin/sh\necho no such module; exit 1\n", "differ: role.yaml\n" +
			"controller-gen crd:trivialVersions=true,maxDescLen=0 rbac:roleName=r paths=./...: exit status 1\nno such module\n"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := files(t, map[string]string{"kelson": kelson, "controller-gen": tt.controllerGen})
			c := &checker{kelson: filepath.Join(bin, "kelson"), work: t.TempDir(),
				controllerGen: filepath.Join(bin, "controller-gen")}
			got, err := c.regenerate(t.Context(), project, c.generate(t.Context(), project))
			if err != nil || got != (cell{name == "stale", tt.want}) {
				t.Errorf("got %+v, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// A copy of a repository that lacks a binary has all other files; one that lacks code is an error.
func TestCloneOfIncompleteCopy(t *testing.T) {
	repo := files(t, map[string]string{"owner+name/repo/.keep": ""}) + "/owner+name/repo"
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	for name, text := range map[string]string{
		"go.mod": "module a\n", "bin/manager": "binary", "workload/a.go": "package workload\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(repo, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(repo, name), []byte(text), 0o644))
	}
	git("add", ".")
	git("commit", "-q", "-m", "all")
	c := &checker{sources: filepath.Dir(filepath.Dir(repo))}
	clone := func() (string, error) {
		dir := filepath.Join(t.TempDir(), "clone")
		return dir, c.clone(t.Context(), project{"owner/name", git("rev-parse", "HEAD")}, dir)
	}
	lose := func(name string) {
		t.Helper()
		blob := git("rev-parse", "HEAD:"+name)
		require.NoError(t, os.Remove(filepath.Join(repo, ".git/objects", blob[:2], blob[2:])))
	}
	lose("bin/manager")
	dir, err := clone()
	require.NoError(t, err)
	_, err = os.Stat(filepath.Join(dir, "workload/a.go"))
	assert.NoError(t, err)
	lose("workload/a.go")
	_, err = clone()
	assert.ErrorContainsf(t, err, "missing: workload/a.go", "without a Go file")
}
