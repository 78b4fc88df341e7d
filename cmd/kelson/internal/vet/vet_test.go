package vet

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/cmd/kelson/internal/exit"
	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/toolchain/vet"
)

const vetted = "../../../../toolchain/vet/testdata/project/config"

// CLI-06
func TestVetCommand(t *testing.T) {
	for _, c := range []struct {
		name string
		o    options
		path []string
		code int
		want []string
	}{
		{"errors", options{}, []string{vetted}, 1, []string{
			`wrong.yaml:35: Deploiment typo: kind: no matches for kind "Deploiment" in version "apps/v1"`,
			"DEFINITION", "self.replicas <= 10", "6 errors, 5 warnings",
		}},
		{"valid", options{}, []string{"../../../../examples/cnat/config/crd/bases", "../../../../examples/cnat/config/samples"}, 0, []string{"0 errors, 0 warnings"}},
		{"strict", options{strict: true}, []string{vetted + "/samples/good.yaml"}, 1, []string{"0 errors, 1 warnings"}},
		{"kustomization", options{kustomize: []string{vetted + "/default"}}, nil, 1, []string{"1 objects: 3 errors"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), c.o, c.path, &out, output.NewProgress(io.Discard))
			var code exit.Code
			if errors.As(err, &code); err != nil && code == 0 || int(code) != c.code {
				t.Fatalf("%v, want exit code %d", err, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing from:\n%s", want, out.String())
				}
			}
		})
	}
	var out bytes.Buffer
	if err := run(t.Context(), options{output: "json"}, []string{vetted}, &out, output.NewProgress(io.Discard)); err == nil {
		t.Error("no error")
	}
	var report vet.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || report.Count(vet.Error) != 6 || len(report.Rules) != 2 {
		t.Errorf("%v: %s", err, out.String())
	}
	for _, o := range []options{{kustomize: []string{"nowhere"}}} {
		if err := run(t.Context(), o, nil, &out, output.NewProgress(io.Discard)); err == nil || errors.As(err, new(exit.Code)) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// CLI-06: samples are checked against the definitions that config/crd patches.
func TestPatchedDefinitions(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"crd/kustomization.yaml": "resources: [bases/jars.yaml]\npatches: [{path: types.yaml, target: {kind: CustomResourceDefinition}}]\n",
		"crd/types.yaml":         "- {op: replace, path: /spec/versions/0/schema/openAPIV3Schema/properties/spec/type, value: object}\n",
		"crd/bases/jars.yaml": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: jars.example.com}
spec:
  group: example.com
  names: {kind: Jar, plural: jars}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: string, x-kubernetes-preserve-unknown-fields: true}}}}
`,
		"samples/jar.yaml": "apiVersion: example.com/v1\nkind: Jar\nmetadata: {name: a}\nspec: {size: 1}\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, paths := range [][]string{{dir}, {dir + "/crd", dir + "/samples"}} {
		var out bytes.Buffer
		if err := run(t.Context(), options{}, paths, &out, output.NewProgress(io.Discard)); err != nil || !strings.Contains(out.String(), "2 objects: 0 errors, 0 warnings") {
			t.Errorf("%s: %v\n%s", paths, err, out.String())
		}
	}
}
