package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"kelson.dev/toolchain/vet"
)

const vetted = "../../toolchain/vet/testdata/project/config"

// CLI-06
func TestVetCommand(t *testing.T) {
	for _, c := range []struct {
		name string
		o    vetOptions
		path []string
		code int
		want []string
	}{
		{"errors", vetOptions{output: "text"}, []string{vetted}, 1, []string{
			`wrong.yaml:35: Deploiment typo: kind: no matches for kind "Deploiment" in version "apps/v1"`,
			"DEFINITION", "self.replicas <= 10", "6 errors, 5 warnings",
		}},
		{"nothing wrong", vetOptions{output: "text"}, []string{"../../examples/cnat/config/crd/bases", "../../examples/cnat/config/samples"}, 0, []string{"0 errors, 0 warnings"}},
		{"strict", vetOptions{output: "text", strict: true}, []string{vetted + "/samples/good.yaml"}, 1, []string{"0 errors, 1 warnings"}},
		{"kustomization", vetOptions{output: "text", kustomize: []string{vetted + "/default"}}, nil, 1, []string{"1 objects: 3 errors"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			err := runVet(t.Context(), c.o, c.path, &out)
			var code exitCode
			if errors.As(err, &code); err != nil && code == 0 || int(code) != c.code {
				t.Fatalf("%v, want exit code %d", err, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing in:\n%s", want, out.String())
				}
			}
		})
	}
	var out bytes.Buffer
	if err := runVet(t.Context(), vetOptions{output: "json"}, []string{vetted}, &out); err == nil {
		t.Error("no error")
	}
	var report vet.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || report.Count(vet.Error) != 6 || len(report.Rules) != 2 {
		t.Errorf("%v: %s", err, out.String())
	}
	for _, o := range []vetOptions{{output: "xml"}, {output: "text", kustomize: []string{"nowhere"}}} {
		if err := runVet(t.Context(), o, nil, &out); err == nil || errors.As(err, new(exitCode)) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
