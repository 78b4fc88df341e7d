package fastpath_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"kelson.dev/apiserver/fastpath/validity"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/randomtest"
	"kelson.dev/internal/require"
)

// For random schemas, every value that Valid accepts is valid to the library, and Valid accepts
// most valid values.
func TestAgreesWithTheLibrary(t *testing.T) {
	seed := randomtest.Seed(t)
	g := generatorValidity{rand.New(rand.NewPCG(seed, 1))}
	valid, sure := 0, 0
	for range 3000 {
		schema := g.schema(3)
		compiled, library := validity.Compile(schema), validation.NewSchemaValidatorFromOpenAPI(schema)
		for range 10 {
			value := g.value(3)
			if g.IntN(3) > 0 {
				value = g.fitting(schema, 4)
			}
			result := library.Validate(value)
			accepted := compiled.Valid(value)
			if accepted && !result.IsValid() {
				s, _ := json.Marshal(schema)
				v, _ := json.Marshal(value)
				t.Fatalf("%s\n%s\ncertainly valid, but the library says %v", s, v, result.Errors)
			}
			if result.IsValid() {
				valid++
				if accepted {
					sure++
				}
			}
		}
	}
	t.Logf("%[2]d of %[1]d valid values are certainly valid", valid, sure)
	if valid < 5000 || sure*2 < valid {
		t.Errorf("only %[2]d of %[1]d valid values are certainly valid", valid, sure)
	}
}

// Valid reports true only for values that are certainly valid. The last cases are left to the
// library.
func TestCertain(t *testing.T) {
	for _, c := range []struct {
		schema, value string
		want          bool
	}{
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"integer","minimum":1}}}`, `{"a":1}`, true},
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"integer","minimum":1}}}`, `{"a":0}`, false},
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}`, `{}`, false},
		{`{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"b":"open"}`, true},
		{`{"type":"object","additionalProperties":{"type":"string"}}`, `{"b":"x"}`, true},
		{`{"type":"object","additionalProperties":{"type":"string"}}`, `{"b":1}`, false},
		{`{"type":"array","items":{"type":"string","pattern":"^a"},"maxItems":2}`, `["a","ab"]`, true},
		{`{"type":"array","items":{"type":"string","pattern":"^a"},"maxItems":2}`, `["a","b"]`, false},
		{`{"type":"string","format":"date-time"}`, `"2026-01-02T03:04:05Z"`, true},
		{`{"type":"string","format":"date-time"}`, `"yesterday"`, false},
		{`{"type":"string","enum":["a","b"]}`, `"b"`, true},
		{`{"type":"string","enum":["a","b"]}`, `"c"`, false},
		{`{"anyOf":[{"type":"integer"},{"type":"string"}]}`, `"10%"`, true},
		{`{"type":"string","maxLength":2}`, `"äö"`, true},
		// Only the library decides these, valid or not.
		{`{"type":"string","nullable":true}`, `null`, false},
		{`{"type":"integer","multipleOf":2}`, `4`, false},
		{`{"not":{"type":"string"}}`, `4`, false},
		{`{"oneOf":[{"type":"integer"}]}`, `4`, false},
	} {
		schema := &spec.Schema{}
		require.NoError(t, json.Unmarshal([]byte(c.schema), schema))
		got := validity.Compile(schema).Valid(parsed(t, c.value))
		assert.Equalf(t, got, c.want, "Valid(%s) with schema %s", c.value, c.schema)
	}
}

func parsed(t *testing.T, text string) (value any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &value))
	return whole(value)
}

// whole returns a value with integers where Kubernetes' JSON parser produces them.
func whole(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			v[name] = whole(v[name])
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return value
}

type generatorValidity struct{ *rand.Rand }

func (g generatorValidity) one(of ...string) string { return of[g.IntN(len(of))] }

func (g generatorValidity) maybe(n int64) *int64 {
	if g.IntN(4) > 0 {
		return nil
	}
	v := g.Int64N(n)
	return &v
}

func (g generatorValidity) bound() *float64 {
	if g.IntN(3) > 0 {
		return nil
	}
	v := []float64{-2, -1, -0.5, 0, 0.5, 1, 2, 1e12, 1e300}[g.IntN(9)]
	return &v
}

func (g generatorValidity) schema(depth int) *spec.Schema {
	s := &spec.Schema{}
	kind := g.one("object", "array", "string", "integer", "number", "boolean")
	if depth == 0 {
		kind = g.one("string", "integer", "number", "boolean")
	}
	s.Type = spec.StringOrArray{kind}
	switch g.IntN(20) {
	case 0:
		s.Type = nil
	case 1:
		s.Type = spec.StringOrArray{"integer", "string"}
		s.AnyOf = []spec.Schema{*spec.Int64Property(), *spec.StringProperty()}
	case 2:
		s.Nullable = true
	case 3:
		s.AllOf = []spec.Schema{*g.schema(0)}
	case 4:
		s.OneOf = []spec.Schema{*g.schema(0), *g.schema(0)}
	case 5:
		s.Not = g.schema(0)
	}
	switch kind {
	case "object":
		s.Properties = map[string]spec.Schema{}
		for range g.IntN(4) {
			s.Properties[g.one("a", "b", "c")] = *g.schema(depth - 1)
		}
		if g.IntN(3) == 0 {
			s.Required = []string{g.one("a", "b")}
		}
		switch g.IntN(5) {
		case 0:
			s.AdditionalProperties = &spec.SchemaOrBool{Allows: true, Schema: g.schema(depth - 1)}
		case 1:
			s.AdditionalProperties = &spec.SchemaOrBool{Allows: g.IntN(2) == 0}
		}
		s.MinProperties, s.MaxProperties = g.maybe(2), g.maybe(4)
	case "array":
		if g.IntN(5) > 0 {
			s.Items = &spec.SchemaOrArray{Schema: g.schema(depth - 1)}
		}
		s.MinItems, s.MaxItems, s.UniqueItems = g.maybe(2), g.maybe(4), g.IntN(10) == 0
	case "string":
		s.MinLength, s.MaxLength = g.maybe(2), g.maybe(4)
		s.Pattern = g.one("", "", "", "^a", "[bö]", "(")
		s.Format = g.one("", "", "", "date-time", "uuid", "ipv4", "int32", "nonsense")
		if g.IntN(6) == 0 {
			s.Enum = []any{"a", "b"}
		}
	case "integer", "number":
		s.Minimum, s.Maximum = g.bound(), g.bound()
		s.ExclusiveMinimum, s.ExclusiveMaximum = g.IntN(4) == 0, g.IntN(4) == 0
		s.Format = g.one("", "", "int32", "int64", "double", "float", "nonsense")
		if g.IntN(10) == 0 {
			two := 2.0
			s.MultipleOf = &two
		}
		if g.IntN(10) == 0 {
			s.Enum = []any{int64(1), 2.0}
		}
	}
	return s
}

func (g generatorValidity) value(depth int) any {
	n := g.IntN(8)
	if depth == 0 {
		n = g.IntN(6)
	}
	switch n {
	case 0:
		return nil
	case 1:
		return g.IntN(2) == 0
	case 2, 3:
		return []any{int64(0), int64(1), int64(-1), int64(2), int64(1) << 40, int64(-1) << 63, 0.5, -0.5, 1.0,
			1e40}[g.IntN(10)]
	case 4, 5:
		return g.one("", "a", "ab", "b", "ö", "abcde", "2026-01-02T03:04:05Z", "10.0.0.1")
	case 6:
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.value(depth-1))
		}
		return list
	}
	m := map[string]any{}
	for range g.IntN(4) {
		m[g.one("a", "b", "c", "d")] = g.value(depth - 1)
	}
	return m
}

// fitting returns a value of a schema's type, so that rules beyond types are tested.
func (g generatorValidity) fitting(s *spec.Schema, depth int) any {
	kind := ""
	if len(s.Type) > 0 {
		kind = s.Type[0]
	}
	switch kind {
	case "object":
		m := map[string]any{}
		for name := range s.Properties {
			property := s.Properties[name]
			if g.IntN(5) > 0 {
				m[name] = g.fitting(&property, depth-1)
			}
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			m["d"] = g.fitting(s.AdditionalProperties.Schema, depth-1)
		}
		return m
	case "array":
		list := []any{}
		for range g.IntN(4) {
			if s.Items != nil {
				list = append(list, g.fitting(s.Items.Schema, depth-1))
			}
		}
		return list
	case "string":
		return g.one("", "a", "ab", "b", "ö", "abcde", "2026-01-02T03:04:05Z", "10.0.0.1")
	case "integer":
		return []any{int64(0), int64(1), int64(-1), int64(2), int64(1) << 40}[g.IntN(5)]
	case "number":
		return []any{int64(0), 0.5, -0.5, 1.5, int64(2)}[g.IntN(5)]
	case "boolean":
		return true
	}
	return g.value(depth)
}
