package fastpath_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"kelson.dev/apiserver/fastpath/shape"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/randomtest"
	"kelson.dev/internal/require"
)

func structural(t *testing.T, schema string) *structuralschema.Structural {
	t.Helper()
	var v1 apiextensionsv1.JSONSchemaProps
	require.NoError(t, json.Unmarshal([]byte(schema), &v1))
	var props apiextensions.JSONSchemaProps
	require.NoError(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&v1, &props,
		nil))
	s, err := structuralschema.NewStructural(&props)
	require.NoError(t, err)
	return s
}

// TestFromStructural adapts small schemas of one property.
func TestFromStructural(t *testing.T) {
	text := &shape.Shape{Kind: shape.Text}
	for name, test := range map[string]struct {
		schema string
		want   *shape.Shape // nil: left to the library
	}{
		"string":        {`{"type":"string"}`, text},
		"integer":       {`{"type":"integer"}`, &shape.Shape{Kind: shape.Integer}},
		"number":        {`{"type":"number"}`, &shape.Shape{Kind: shape.Number}},
		"int or string": {`{"x-kubernetes-int-or-string":true}`, &shape.Shape{Kind: shape.IntegerOrText}},
		"map": {`{"type":"object","additionalProperties":{"type":"string"}}`,
			&shape.Shape{Kind: shape.Object, Others: text}},
		"atomic map": {`{"type":"object","x-kubernetes-map-type":"atomic","additionalProperties":{"type":"string"}}`,
			&shape.Shape{Kind: shape.Object, Atomic: true, Others: text}},
		"list": {`{"type":"array","items":{"type":"string"}}`,
			&shape.Shape{Kind: shape.List, Atomic: true, Items: text}},
		"set": {`{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}`,
			&shape.Shape{Kind: shape.List, Keyed: true, Items: text}},
		"keys": {`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["b","a"],"items":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string","default":"x"}}}}`,
			&shape.Shape{Kind: shape.List, Keyed: true, Keys: []shape.Key{{Name: "a"}, {Name: "b"}},
				Items: &shape.Shape{
					Kind: shape.Object, Members: map[string]*shape.Shape{"a": text, "b": text},
					Defaulted: []string{"b"},
				}}},
		"contains a set": {`{"type":"object","properties":{"s":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}}}`,
			&shape.Shape{Kind: shape.Object, Keyed: true,
				Members: map[string]*shape.Shape{"s": {Kind: shape.List, Keyed: true, Items: text}}}},
		"free":            {`{"type":"object","x-kubernetes-preserve-unknown-fields":true}`, nil},
		"embedded object": {`{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"spec":{"type":"object"}}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := shape.FromStructural(structural(t, `{"type":"object","properties":{"p":`+test.schema+`}}`))
			got, declared := root.Member("p")
			if !declared || !same(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			assert.Equalf(t, root.Keyed, test.want != nil && test.want.Keyed, "the object is keyed")
		})
	}
	if s := shape.FromStructural(nil); s != nil {
		t.Errorf("the shape of no schema is %+v", s)
	}
}

// same compares shapes. Empty and missing maps are equal.
func same(a, b *shape.Shape) bool {
	if a == nil || b == nil {
		return a == b
	}
	if len(a.Members) != len(b.Members) || !same(a.Items, b.Items) || !same(a.Others, b.Others) {
		return false
	}
	for name, member := range a.Members {
		if other, ok := b.Members[name]; !ok || !same(member, other) {
			return false
		}
	}
	x, y := *a, *b
	x.Members, x.Items, x.Others, y.Members, y.Items, y.Others = nil, nil, nil, nil, nil, nil
	return reflect.DeepEqual(x, y)
}

// TestFree checks which properties may have any content.
func TestFree(t *testing.T) {
	for schema, want := range map[string]map[string]shape.Kind{
		`{"type":"object","x-kubernetes-preserve-unknown-fields":true}`: {
			"p": shape.Object},
		`{"x-kubernetes-preserve-unknown-fields":true}`: {
			"p": shape.Unknown},
		`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"string"}}}`:  nil,
		`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-embedded-resource":true}`: nil,
		`{"type":"array","x-kubernetes-preserve-unknown-fields":true,"items":{"type":"string"}}`:              nil,
		`{"type":"object"}`: nil,
	} {
		root := shape.FromStructural(structural(t, `{"type":"object","properties":{"p":`+schema+`}}`))
		assert.Deepf(t, root.Free, want, "%s", schema)
	}
}

// TestFromTyped adapts a recursive type with defaults of keys.
func TestFromTyped(t *testing.T) {
	parser, err := typed.NewParser(`types:
- name: root
  map:
    fields:
    - {name: self, type: {namedType: root}}
    - {name: mixed, type: {scalar: untyped, list: {elementType: {scalar: string}, elementRelationship: atomic}}}
    - name: ports
      type:
        list:
          elementRelationship: associative
          keys: [port, protocol]
          elementType: {namedType: port}
- name: port
  map:
    fields:
    - {name: port, type: {scalar: numeric}}
    - {name: protocol, type: {scalar: string}, default: TCP}
`)
	require.NoError(t, err)
	root := parser.Type("root")
	s := shape.FromTyped(&root)
	if self, _ := s.Member("self"); self != s || !s.Keyed {
		t.Errorf("self is %p, not %p; keyed: %t", self, s, s.Keyed)
	}
	if mixed, _ := s.Member("mixed"); mixed.Kind != shape.AnyScalar || !mixed.Mixed {
		t.Errorf("mixed is %+v", mixed)
	}
	ports, _ := s.Member("ports")
	assert.Deepf(t, ports.Keys, []shape.Key{{Name: "port"}, {Name: "protocol", Default: "TCP"}}, "the keys")
	assert.Deepf(t, ports.Items.Defaulted, []string{"protocol"}, "defaulted")
	if shape.FromTyped(nil) != nil {
		t.Error("the shape of no type is not nil")
	}
}

// TestHasMatchesLibrary compares which scalars a kind has with the library's validation of them.
func TestHasMatchesLibrary(t *testing.T) {
	for _, kind := range []smd.Scalar{smd.String, smd.Numeric, smd.Boolean, smd.Untyped} {
		parseable := &typed.ParseableType{Schema: &smd.Schema{}, TypeRef: smd.TypeRef{Inlined: smd.Atom{Scalar: &kind}}}
		s := shape.FromTyped(parseable)
		for _, value := range []any{"", "x", int64(0), 1.5, true, map[string]any{}, []any{}} {
			_, err := parseable.FromUnstructured(value)
			if s.Has(value) != (err == nil) {
				t.Errorf("%s has %#v: %t; the library: %v", kind, value, s.Has(value), err)
			}
		}
	}
}

// TestAdaptersAgree builds the shape of random schemas with both adapters: from the structural
// schema, and from the type that the field manager derives from it.
func TestAdaptersAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(randomtest.Seed(t), 5))
	var schema func(depth int) map[string]any
	object := func(depth int, names ...string) map[string]any {
		properties := map[string]any{}
		for _, name := range names {
			properties[name] = schema(depth)
		}
		return map[string]any{"type": "object", "properties": properties}
	}
	schema = func(depth int) map[string]any {
		n := random.IntN(9)
		if depth == 0 {
			n %= 4
		}
		switch n {
		case 0, 1, 2:
			return map[string]any{"type": []string{"string", "number", "boolean"}[n]}
		case 3:
			return map[string]any{"x-kubernetes-int-or-string": true}
		case 4:
			return map[string]any{"type": "array", "items": schema(depth - 1)}
		case 5:
			return map[string]any{"type": "array", "x-kubernetes-list-type": "set",
				"items": map[string]any{"type": "string"}}
		case 6:
			element := object(depth-1, "v")
			element["properties"].(map[string]any)["k"] = map[string]any{"type": "string"}
			return map[string]any{"type": "array", "x-kubernetes-list-type": "map",
				"x-kubernetes-list-map-keys": []any{"k"}, "items": element}
		case 7:
			return map[string]any{"type": "object", "additionalProperties": schema(depth - 1)}
		}
		s := object(depth-1, "a", "b", "c")
		if random.IntN(3) == 0 {
			s["x-kubernetes-map-type"] = "atomic"
		}
		return s
	}
	for range 300 {
		text, err := json.Marshal(object(3, "x", "y", "z"))
		require.NoError(t, err)
		s := structural(t, string(text))
		fromStructural := shape.FromStructural(s)
		types, err := schemaconv.ToSchemaFromOpenAPI(map[string]*spec.Schema{"root": s.ToKubeOpenAPI()}, false)
		require.NoError(t, err)
		name := "root"
		fromTyped := shape.FromTyped(&typed.ParseableType{Schema: types, TypeRef: smd.TypeRef{NamedType: &name}})
		for _, name := range []string{"x", "y", "z"} {
			a, _ := fromStructural.Member(name)
			b, _ := fromTyped.Member(name)
			if !alike(a, b) {
				t.Fatalf("%s of %s:\n%+v\n%+v", name, text, a, b)
			}
		}
	}
}

// alike compares the shapes of two adapters. The merge library has no kind for integers, and none
// for integers or strings.
func alike(structural, typed *shape.Shape) bool {
	if structural == nil || typed == nil {
		return structural == typed
	}
	kind := structural.Kind
	if kind == shape.IntegerOrText {
		kind = shape.AnyScalar
	}
	if kind != typed.Kind || structural.Atomic != typed.Atomic || structural.Keyed != typed.Keyed ||
		!reflect.DeepEqual(structural.Keys, typed.Keys) ||
		!alike(structural.Items, typed.Items) || !alike(structural.Others, typed.Others) ||
		len(structural.Members) != len(typed.Members) {
		return false
	}
	for name, member := range structural.Members {
		if !alike(member, typed.Members[name]) {
			return false
		}
	}
	return true
}
