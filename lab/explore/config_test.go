package explore_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kelson.dev/lab/explore"
)

const shopDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Shop, plural: shops}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

// project writes a project with one sample and a configuration.
func project(t *testing.T, config string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"config/crd/bases/shops.yaml": shopDefinition,
		"config/samples/shop.yaml":    "{apiVersion: example.com/v1, kind: Shop, metadata: {name: a}}\n---\n{apiVersion: example.com/v1, kind: Shop, metadata: {name: b}}\n",
		"config/explore/other.yaml":   "{apiVersion: example.com/v1, kind: Shop, metadata: {name: a}, spec: {}}",
		explore.ConfigFile:            config,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// LAB-03: explore.yaml sets the inputs and invariants of a project.
func TestConfig(t *testing.T) {
	s, err := explore.Project(project(t, `
inputs:
- create: config/samples
- wait: 90m
- flip: config/explore/other.yaml
- delete: config/samples/shop.yaml
invariants:
- {name: few, kind: Shop, rule: all.Shop.size() < 3}
ignore: [shops.example.com status.at]
retained: [persistentvolumeclaims]
watchList: refused
quiet: 1m
horizon: 1h
reversible: true
keep: true
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	var inputs []string
	for _, i := range s.Inputs {
		inputs = append(inputs, i.String())
	}
	if want := []string{"create Shop a", "create Shop b", "wait 1h30m0s", "flip Shop a", "delete Shop a", "delete Shop b"}; !slices.Equal(inputs, want) {
		t.Errorf("inputs %q, want %q", inputs, want)
	}
	if len(s.Invariants) != 1 || s.Invariants[0].Name != "few" || s.Invariants[0].Kind != "Shop" || s.Invariants[0].Rule == "" {
		t.Errorf("invariants %+v", s.Invariants)
	}
	if !slices.Equal(s.Retained, []string{"persistentvolumeclaims"}) || s.WatchList != explore.WatchListRefused {
		t.Errorf("retained %q, watchList %q", s.Retained, s.WatchList)
	}
	if len(s.Ignore) != 1 || s.Quiet != time.Minute || s.Horizon != time.Hour || !s.Reversible || !s.Keep {
		t.Errorf("%+v", s)
	}
	if s, err = explore.Project(project(t, "quiet: 1m\n"), nil); err != nil || len(s.Inputs) != 2 {
		t.Errorf("without inputs: %v, %v, want the samples", s.Inputs, err)
	}
}

// LAB-03: a wrong explore.yaml is refused, with the field.
func TestRefusedConfig(t *testing.T) {
	for config, want := range map[string]string{
		"invariant: []":                         `explore.yaml: error unmarshaling JSON: while decoding JSON: json: unknown field "invariant"`,
		"inputs: [{wait: 1h, create: x.yaml}]":  "explore.yaml: inputs[0]: set one of create, apply, delete, flip, wait and history",
		"inputs: [{}]":                          "explore.yaml: inputs[0]: set one of",
		"inputs: [{wait: 1h}, {apply: x.yaml}]": "x.yaml: no such file",
		"watchList: maybe":                      `explore.yaml: watchList: "maybe" is not one of "served" and "refused"`,
		"quiet: long":                           `invalid duration "long"`,
	} {
		if _, err := explore.Project(project(t, config), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}
