package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
			if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		got := (&checker{helm: filepath.Join(dir, "helm")}).compare(t.Context(), file, dir)
		if found := strings.TrimPrefix(got.text, "differs from the installer in "); want == "" &&
			got != (cell{true, "2 equal objects"}) || want != "" && !strings.HasSuffix(found, "places: "+want) {
			t.Errorf("%s\ngot  %s\nwant %s", chart, got.text, want)
		}
	}
}
