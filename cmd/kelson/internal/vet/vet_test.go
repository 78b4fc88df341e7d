package vet

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
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
