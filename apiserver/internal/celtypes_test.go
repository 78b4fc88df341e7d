package internal_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kelson.dev/apiserver/attacktest/bodies"
	"kelson.dev/internal/require"

	"kelson.dev/apiserver/celtypes"
)

// bindings nests n bindings of NAMEi, each to a source with %d for i-1.
func celBindings(name, first, source string, n int, result string) string {
	for i := n - 1; i >= 0; i-- {
		init := first
		if i > 0 {
			init = strings.ReplaceAll(source, "%d", fmt.Sprint(i-1))
		}
		result = fmt.Sprintf("cel.bind(%s%d, %s, %s)", name, i, init, result)
	}
	return result
}

func TestRefusesLargeTypes(t *testing.T) {
	for name, expression := range map[string]string{
		"all":          bodies.LargeType(40),
		"bind":         celBindings("x", "1", "{x%d: x%d}", 40, "true"),
		"filter":       celBindings("x", "1", "[{x%d: x%d}].filter(i, true)", 40, "true"),
		"map":          celBindings("x", "[1]", "x%d.map(i, {i: i})", 40, "true"),
		"transformMap": celBindings("x", "{1: 1}", "[x%d].transformMap(i, v, {v: v})", 40, "true"),
		"optMap":       celBindings("x", "optional.of(1)", "x%d.optMap(i, {i: i})", 40, "true"),
		"ternary":      celBindings("x", "1", "true ? {x%d: x%d} : {}", 40, "true"),
		"index":        celBindings("x", "1", "[{x%d: x%d}][0]", 40, "true"),
		"sortBy":       celBindings("x", "1", "[{x%d: x%d}].sortBy(i, 1)", 40, "true"),
		"chained":      "optional.of(1)" + strings.Repeat(".optMap(x, x)", 40),
		"parameter": celBindings("x", "[]", "{x%d: x%d}", 6,
			celBindings("y", "1", "{y%d: y%d}", 6, "x0 == [y5] && [x5] == [x5]")),
		"many uses":     celBindings("x", "1", "{x%d: x%d}", 8, "["+strings.Repeat("x7, ", 400)+"1] == []"),
		"many literals": "[1].all(x, " + strings.Repeat("[] == [] && ", 60) + "true)",
	} {
		start := time.Now()
		errs := new(celtypes.Scope).Check(field.NewPath("rule"), expression)
		if len(errs) != 1 || !strings.Contains(errs[0].Detail, "expression is too complex") ||
			time.Since(start) > time.Minute {
			t.Errorf("%s: %v after %v: %.200s", name, errs, time.Since(start), expression)
		}
	}
}

// Variables have the sizes of their expressions.
func TestVariables(t *testing.T) {
	var s celtypes.Scope
	s.Add(nil, "x0", "1")
	for i := range 40 {
		if errs := s.Add(field.NewPath("x"), fmt.Sprint("x", i+1),
			fmt.Sprintf("{variables.x%d: variables.x%[1]d}", i)); len(errs) > 0 {
			return
		}
	}
	t.Error("forty variables that double are accepted")
}

// The limit on the sum applies to all expressions of an object.
func TestManyExpressions(t *testing.T) {
	var s celtypes.Scope
	expression := bodies.LargeType(8)
	for range 200 {
		if errs := s.Check(field.NewPath("rule"), expression); len(errs) > 0 {
			return
		}
	}
	t.Error("two hundred expressions with large types are accepted")
}

func TestAcceptsPolicies(t *testing.T) {
	policies := []string{
		"", "(", "true", "self.replicas <= self.maxReplicas", bodies.LargeType(7),
		`object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com/'))`,
		`(has(object.spec.containers) ? object.spec.containers : []) + (has(object.spec.initContainers) ? object.spec.initContainers : []) == []`,
		`object.metadata.?labels.orValue({}).exists(k, k == 'a') && object.spec.?volumes.orValue([]).map(v, {v.name: v}).all(m, m.all(k, has(m[k].name)))`,
		`self.items.filter(x, x.a > 1).map(x, x.b).map(x, {x: [x]}).filter(m, m.size() > 0).exists(m, m == {})`,
		`device.attributes["a.example.com"].model == "x" && cel.bind(c, device.capacity["a.example.com"], c.memory.isGreaterThan(quantity("1Gi")))`,
		strings.Repeat(`object.?a.orValue([]).map(c, {c.name: c.image}).size() > 0 && `, 40) + "true",
		strings.Repeat(`a.b + `, 500) + "1",
		`a` + strings.Repeat(` + [1, 2].map(x, x * 2)`, 100),
		`optional.of(1).optMap(x, x).optMap(x, x).orValue(2) == [1].sortBy(x, -x)[0]`,
		`JSONPatch{op: "add", path: "/a", value: {"a": {"b": ["c"]}}}`,
	}
	for _, policy := range policies {
		if errs := new(celtypes.Scope).Check(field.NewPath("rule"), policy); len(errs) > 0 {
			t.Errorf("%.300s: %v", policy, errs)
		}
	}
}

// Expressions below the limit are checked in milliseconds. Measures with CELTYPES_MEASURE=1.
func TestMeasure(t *testing.T) {
	if os.Getenv("CELTYPES_MEASURE") == "" {
		t.Skip("CELTYPES_MEASURE is not set")
	}
	env, err := cel.NewEnv(cel.OptionalTypes(), ext.Bindings(), ext.TwoVarComprehensions(), ext.Lists(),
		cel.HomogeneousAggregateLiterals())
	require.NoError(t, err)
	for depth := 4; depth <= 13; depth++ {
		for name, e := range map[string]string{"all": bodies.LargeType(depth),
			"bind": celBindings("x", "1", "{x%d: x%d}", depth,
				"["+strings.Repeat(fmt.Sprintf("x%d, ", depth-1), 200)+"] == []")} {
			ok := len(new(celtypes.Scope).Check(nil, e)) == 0
			start := time.Now()
			_, issues := env.Compile(e)
			t.Log(name, depth, ok, time.Since(start), issues.Err())
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	const expression = `object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com/'))`
	for b.Loop() {
		if len(new(celtypes.Scope).Check(nil, expression)) > 0 {
			b.Fatal("refused")
		}
	}
}
