package main

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
	vetcommand "kelson.dev/cmd/kelson/internal/vet"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/vet"
)

const vetted = "../../toolchain/vet/testdata/project/config"

// runVet runs kelson vet and returns its output.
func runVet(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := vetcommand.Command()
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(io.Discard)
	c.SilenceUsage, c.SilenceErrors = true, true
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

func TestVetCommand(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"errors", []string{vetted}, 1, []string{
			`wrong.yaml:35: Deploiment typo: kind: no matches for kind "Deploiment" in version "apps/v1"`,
			"DEFINITION", "self.replicas <= 10", "6 errors, 5 warnings",
		}},
		{"valid", []string{"../../examples/cnat/config/crd/bases", "../../examples/cnat/config/samples"}, 0,
			[]string{"0 errors, 0 warnings"}},
		{"strict", []string{"--strict", vetted + "/samples/good.yaml"}, 1, []string{"0 errors, 1 warnings"}},
		{"kustomization", []string{"-k", vetted + "/default"}, 1, []string{"1 objects: 3 errors"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := runVet(t, c.args...)
			var code exit.Code
			if errors.As(err, &code); err != nil && code == 0 || int(code) != c.code {
				t.Fatalf("%v, want exit code %d", err, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing from:\n%s", want, out)
				}
			}
		})
	}
	out, err := runVet(t, "-o", "json", vetted)
	if err == nil {
		t.Error("no error")
	}
	var report vet.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Count(vet.Error) != 6 ||
		len(report.Rules) != 2 {
		t.Errorf("%v: %s", err, out)
	}
	for _, args := range [][]string{{"-k", "nowhere"}, {"nowhere.yaml"}} {
		var failure *exit.Failure
		if _, err := runVet(t, args...); !errors.As(err, &failure) || failure.Code != 2 {
			t.Errorf("%v: %v, want an error with exit code 2", args, err)
		}
	}
}

// Samples are checked against the definitions that config/crd patches.
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
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
	}
	for _, paths := range [][]string{{dir}, {dir + "/crd", dir + "/samples"}} {
		out, err := runVet(t, paths...)
		if err != nil || !strings.Contains(out, "2 objects: 0 errors, 0 warnings") {
			t.Errorf("%s: %v\n%s", paths, err, out)
		}
	}
}
