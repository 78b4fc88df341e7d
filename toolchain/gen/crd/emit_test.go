package crd

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	"kelson.dev/internal/require"
)

// The emitter writes the same bytes as sigs.k8s.io/yaml for any definition.
func TestEmitterMatchesYAMLPackage(t *testing.T) {
	texts := []string{"", "a", "true", "n", "3", "-", "a: b", "# c", " lead", "trail ", "two\nlines", "ends\n",
		"\n\nbegins", "a\n\n  b\n", "tab\tx", "é", "'", `"`, "`x`", "|-",
		"a very long line that goes on and on and on and on and on and on and on and on and on and on and on and on and on and on", "1e3", "0x1", "null", "~", "=", "!x", "&a", "*b"}
	for seed := range int64(60) {
		def := &apiextensionsv1.CustomResourceDefinition{}
		f := randfill.NewWithSeed(seed).NilChance(.6).NumElements(0, 3).MaxDepth(14).Funcs(
			func(s *string, c randfill.Continue) { *s = texts[c.Intn(len(texts))] },
			func(m *metav1.ObjectMeta, c randfill.Continue) {
				m.Name = "n"
				if c.Bool() {
					m.Labels = map[string]string{"b": "x", "a10": "y\nz", "a9": "true"}
				}
			},
			func(v *apiextensionsv1.JSON, c randfill.Continue) {
				v.Raw = []byte([]string{`1`, `"x"`, `true`, `1.5`, `{"a":{"b":[1,{"c":"d\ne"}]}}`, `[]`, `{}`,
					`["a","b"]`, `null`, `1e21`}[c.Intn(10)])
			},
			func(v *apiextensionsv1.JSONSchemaPropsOrArray, c randfill.Continue) {
				v.Schema = &props{}
				c.Fill(v.Schema)
			},
			func(v *apiextensionsv1.CustomResourceValidation, c randfill.Continue) {
				v.OpenAPIV3Schema = &props{}
				c.Fill(v.OpenAPIV3Schema)
			},
			func(s *props, c randfill.Continue) {
				c.FillNoCustom(s)
				// These fields are never generated.
				s.ID, s.Schema, s.Ref, s.Definitions, s.Dependencies, s.PatternProperties, s.AdditionalItems = "", "",
					nil, nil, nil, nil, nil
			})
		f.Fill(def)
		if len(def.Spec.Versions) == 0 {
			continue // a definition always has a version
		}
		for i := range def.Spec.Versions {
			if def.Spec.Versions[i].Schema == nil {
				def.Spec.Versions[i].Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &props{}}
			}
		}
		want, err := marshal(def)
		require.NoError(t, err)
		got, err := newEmitter().definition(def)
		require.NoError(t, err)
		if string(got) != string(want) {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			t.Fatalf("seed %d\n--- got\n…%s\n--- want\n…%s", seed, got[max(0, at-80):min(len(got), at+80)],
				want[max(0, at-80):min(len(want), at+80)])
		}
	}
}

// FuzzText compares the fast encoding of a text with that of sigs.k8s.io/yaml.
func FuzzText(f *testing.F) {
	for _, s := range []string{"a", "No", "a: b", "a:b", "a #b", "a#b", "two\nlines",
		"two\n\n  lines: here\n# not a comment", "Nil", "nan", "a\n ", "x \ny", "e1", "Yes,",
		"a very long line that goes on and on and on and on and on and on and on and on and  on and on and on and on and on and on and on and on", "a?", "O", "a\ttab"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := simple(s, 3, "")
		if !ok {
			return
		}
		want, err := yaml.Marshal(map[string]string{"k": s})
		require.NoError(t, err)
		require.Equalf(t, "k: "+got, string(want), "%q is written %q", s, got)
	})
}
