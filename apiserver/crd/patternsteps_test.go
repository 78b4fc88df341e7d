package crd

import (
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"kelson.dev/internal/assert"
)

// Many values that each take little time are refused only if matching all of them takes too long.
// Beyond freeSteps, the measured time decides, so ordinary patterns accept many values.
func TestMatchingManyValues(t *testing.T) {
	schema := func(pattern string) *spec.Schema {
		return spec.ArrayProperty(&spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"string"},
			Pattern: pattern}})
	}
	list := func(n int, value string) (all []any) {
		for range n {
			all = append(all, value)
		}
		return all
	}
	const octet = `(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])`
	address := `^(` + octet + `\.){3}` + octet + `(/([12]?[0-9]|3[0-2]))?$|^([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}$`
	addresses := patternsOf(schema(address))
	const one = "2001:0db8:0000:0000:0000:ff00:0042:8329"
	// a thousand are measured
	n := int(freeSteps/(addresses.items.instructions*int64(len(one)))) + 1000
	assert.NoErrorf(t, addresses.check(list(n, one)), "%d addresses", n)
	optional := patternsOf(schema(`^(` + strings.Repeat("a?", 1000) + `)b$`))
	if err := optional.check(list(400, strings.Repeat("a", 4000))); err != errMatching {
		t.Errorf("400 values of 4 KB: %v, want %v", err, errMatching)
	}
	if patternsOf(schema("")) != nil || patternsOf(schema("(")) != nil {
		t.Error("patternsOf a schema without patterns is not nil")
	}
}
