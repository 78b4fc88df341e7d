package crd

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Objects whose validation against alternatives would take minutes are refused before the library
// validates them. Ordinary objects of the maximum size are not.
func TestBranches(t *testing.T) {
	branches := func(n int, branch func(i int) *spec.Schema) *spec.Schema {
		s := &spec.Schema{}
		for i := range n {
			s.AnyOf = append(s.AnyOf, *branch(i))
		}
		return s
	}
	number := func(i int) *spec.Schema { return spec.Int64Property().WithMinimum(float64(1000+i), false) }
	named := func(i int) *spec.Schema { return (&spec.Schema{}).WithRequired(fmt.Sprint(i)) }
	member := func(i int) *spec.Schema {
		return (&spec.Schema{}).SetProperty("x", *branches(1, number).SetProperty("y", *spec.StringProperty()))
	}
	intOrString := branches(2, func(i int) *spec.Schema { return (&spec.Schema{}).WithMinimum(float64(i), false) })
	enum := func(n int) *spec.Schema {
		s := spec.StringProperty()
		for i := range n {
			s.Enum = append(s.Enum, fmt.Sprint(i))
		}
		return s
	}
	list := func(n int, value any) (all []any) {
		for range n {
			all = append(all, value)
		}
		return all
	}
	object := func(n int, value any) map[string]any {
		all := map[string]any{}
		for i := range n {
			all[fmt.Sprint("k", i)] = value
		}
		return all
	}
	for name, test := range map[string]struct {
		schema  *spec.Schema
		value   any
		refused bool
	}{
		"numbers":               {spec.ArrayProperty(branches(3000, number)), list(80_000, int64(1)), true},
		"a number":              {branches(3000, number), int64(1), false},
		"members":               {spec.MapProperty(branches(3000, number)), object(1000, int64(1)), true},
		"required":              {branches(3000, named), object(60_000, ""), true},
		"required, few members": {branches(3000, named), object(100, ""), false},
		"members in alternatives": {spec.ArrayProperty(branches(300, member)),
			list(1000, map[string]any{"x": map[string]any{}}), true},
		"nested alternatives": {spec.ArrayProperty(branches(60, func(int) *spec.Schema {
			return branches(60, number)
		})), list(200, int64(1)), true},
		"text": {branches(3000, func(int) *spec.Schema {
			return (&spec.Schema{}).WithMaxLength(1)
		}), strings.Repeat("x", 1_500_000), true},
		"enum": {spec.ArrayProperty(enum(3000)), list(80_000, "1"), true},
		"not": {spec.ArrayProperty(&spec.Schema{
			SchemaProps: spec.SchemaProps{Not: branches(3000, number)}}), list(80_000, int64(1)), true},
		"integers or strings": {spec.ArrayProperty(intOrString), list(200_000, "1"), false},
		"small enums":         {spec.ArrayProperty(enum(50)), list(200_000, "1"), false},
	} {
		if err := workOf(test.schema).check(test.value); (err == errBranches) != test.refused {
			t.Errorf("%s: %v, want refused: %v", name, err, test.refused)
		}
	}
	if branchesOf(spec.MapProperty(spec.StringProperty())) != nil {
		t.Error("branches of a schema without junctions are not nil")
	}
}
