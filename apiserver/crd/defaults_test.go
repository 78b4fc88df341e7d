package crd

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/randomtest"
)

// randomDefaults makes schemas with defaults, and values that fit them in part.
type randomDefaults struct{ *rand.Rand }

func (r randomDefaults) schema(depth int) *structuralschema.Structural {
	s := &structuralschema.Structural{}
	s.Nullable = r.IntN(3) == 0
	switch kind := r.IntN(4); {
	case depth == 0 || kind == 0:
		if r.IntN(2) == 0 {
			s.Default.Object = strings.Repeat("d", r.IntN(5))
		}
		return s
	case kind == 1:
		s.Items = r.schema(depth - 1)
		if r.IntN(3) == 0 {
			s.Default.Object = []any{map[string]any{}, nil}
		}
		return s
	case kind == 2:
		s.AdditionalProperties = &structuralschema.StructuralOrBool{Structural: r.schema(depth - 1)}
	}
	if s.AdditionalProperties == nil || r.IntN(4) == 0 {
		s.Properties = map[string]structuralschema.Structural{}
		for range 1 + r.IntN(3) {
			s.Properties[r.name()] = *r.schema(depth - 1)
		}
	}
	if r.IntN(3) == 0 {
		s.Default.Object = map[string]any{r.name(): map[string]any{}}
	}
	return s
}

func (r randomDefaults) name() string { return string("abcd"[r.IntN(4)]) }

func (r randomDefaults) value(depth int) any {
	switch n := r.IntN(6); {
	case depth == 0 || n == 0:
		return "text"
	case n == 1:
		return nil
	case n == 2:
		list := []any{}
		for range r.IntN(3) {
			list = append(list, r.value(depth-1))
		}
		return list
	}
	object := map[string]any{}
	for range r.IntN(4) {
		object[r.name()] = r.value(depth - 1)
	}
	return object
}

// Defaults are those of the library, and their computed size is that which they add.
func TestDefaultsMatchLibrary(t *testing.T) {
	r := randomDefaults{rand.New(rand.NewPCG(randomtest.Seed(t), 3))}
	changed := 0
	for range 20_000 {
		schema, value := r.schema(4), r.value(4)
		want := runtime.DeepCopyJSONValue(value)
		defaulting.Default(want, schema)
		got, left := runtime.DeepCopyJSONValue(value), int64(math.MaxInt64)
		d := defaultsOf(schema)
		d.fits(got, &left)
		if !reflect.DeepEqual(got, value) {
			t.Fatalf("fits has changed %v to %v", value, got)
		}
		d.apply(got)
		if !reflect.DeepEqual(got, want) {
			text, _ := json.Marshal(schema)
			t.Fatalf("%s\n%v\nbecame %v\nwant   %v", text, value, got, want)
		}
		before, _ := json.Marshal(value)
		after, _ := json.Marshal(got)
		added, computed := int64(len(after)-len(before)), math.MaxInt64-left
		nulls := int64(strings.Count(string(before), "null")) // replaced, but counted as added
		if computed < added/2 || computed > 2*added+20*nulls {
			t.Fatalf("%s became %s: computed %d more bytes, not %d", before, after, computed, added)
		}
		if added > 0 {
			changed++
		}
	}
	if changed < 1000 {
		t.Errorf("only %d values got defaults", changed)
	}
}

// The size of defaults that multiply is computed without them, in little time: those for the
// elements of a list, those within the default of another, and those of many properties.
func TestLargeDefaultsDoNotFit(t *testing.T) {
	withDefault := func(value any) structuralschema.Structural {
		return structuralschema.Structural{Generic: structuralschema.Generic{
			Default: structuralschema.JSON{Object: value}}}
	}
	large := structuralschema.Structural{Properties: map[string]structuralschema.Structural{
		"x": withDefault(strings.Repeat("x", 100<<10))}}
	many := structuralschema.Structural{Properties: map[string]structuralschema.Structural{}}
	for i := range 3000 {
		many.Properties[fmt.Sprint("property", i)] = withDefault("")
	}
	var empty []any
	for range 10_000 {
		empty = append(empty, map[string]any{})
	}
	list := func(items structuralschema.Structural, value any) structuralschema.Structural {
		s := structuralschema.Structural{Items: &items}
		s.Default.Object = value
		return s
	}
	for name, test := range map[string]struct {
		schema structuralschema.Structural
		value  any
	}{
		"elements":   {list(large, nil), empty},
		"properties": {list(many, nil), empty},
		"defaults": {structuralschema.Structural{
			Properties: map[string]structuralschema.Structural{"list": list(large, empty)}}, map[string]any{}},
		"nulls": {list(withDefault(strings.Repeat("x", 100<<10)), nil), make([]any, 10_000)},
		"members": {structuralschema.Structural{AdditionalProperties: &structuralschema.StructuralOrBool{
			Structural: &large}},
			map[string]any{"a": map[string]any{}, "b": map[string]any{}, "c": []any{}, "list": map[string]any{}}},
	} {
		left := int64(store.MaxObject)
		if fits := defaultsOf(&test.schema).fits(test.value, &left); fits != (name == "members") {
			t.Errorf("%s: %v, %d bytes are left", name, fits, left)
		}
	}
}
