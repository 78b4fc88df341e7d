package fastpath_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/apiserver/fastpath/shape"
	"kelson.dev/apiserver/fastpath/validity"
	"kelson.dev/internal/randomtest"
)

// TestUnchangedMatchesLibrary checks that the library does not modify any object that Unchanged
// accepts, and that Unchanged accepts most of the library's results.
func TestUnchangedMatchesLibrary(t *testing.T) {
	seed := randomtest.Seed(t)
	g := generatorValidity{rand.New(rand.NewPCG(seed, 2))}
	accepted, after, shaped := 0, 0, 0
	for range 3000 {
		schema := g.structural(3, true)
		objectShape := shape.FromStructural(schema)
		for range 10 {
			object := map[string]any{"apiVersion": "a/v1", "kind": "K",
				"metadata": map[string]any{"name": "n", "odd": nil}}
			for name := range schema.Properties {
				property := schema.Properties[name]
				if g.IntN(4) > 0 {
					object[name] = g.shapedLike(&property, 4)
				}
			}
			if g.IntN(6) == 0 {
				object[g.one("a", "b", "d")] = g.value(2)
			}
			before := runtime.DeepCopyJSON(object)
			was := validity.Unchanged(objectShape, object)
			unknown := intoShape(object, schema)
			if was {
				accepted++
				if len(unknown) > 0 || !reflect.DeepEqual(object, before) {
					s, _ := json.Marshal(schema)
					t.Fatalf("%s\nUnchanged accepted %v, but the library changed it to\n%v", s, before, object)
				}
			}
			after++
			if validity.Unchanged(objectShape, object) {
				shaped++
			}
		}
	}
	t.Logf("Unchanged accepted %d objects; of %d results of the library, %d", accepted, after, shaped)
	if accepted < 1000 || shaped*3 < after {
		t.Errorf("Unchanged accepted only %d objects; of %d results of the library, only %d", accepted, after, shaped)
	}
}

func intoShape(object map[string]any, s *structuralschema.Structural) []string {
	unknown := pruning.PruneWithOptions(object, s, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(object, s)
	_, more := objectmeta.CoerceWithOptions(nil, object, s, false,
		objectmeta.CoerceOptions{DropInvalidFields: true, ReturnUnknownFieldPaths: true})
	defaulting.Default(object, s)
	return append(unknown, more...)
}

// structural returns a random schema. Its root is an object.
func (g generatorValidity) structural(depth int, root bool) *structuralschema.Structural {
	s := &structuralschema.Structural{}
	s.Type = g.one("object", "object", "array", "string", "integer")
	if depth == 0 {
		s.Type = "string"
	}
	if root {
		s.Type = "object"
	}
	s.Nullable = g.IntN(6) == 0
	switch g.IntN(12) {
	case 0:
		s.XPreserveUnknownFields = s.Type == "object" && !root
	case 1:
		s.XEmbeddedResource = s.Type == "object" && !root
	}
	switch s.Type {
	case "object":
		if !root && g.IntN(3) == 0 {
			s.AdditionalProperties = &structuralschema.StructuralOrBool{Bool: true}
			if g.IntN(3) > 0 {
				s.AdditionalProperties = &structuralschema.StructuralOrBool{Structural: g.structural(depth-1, false)}
			}
			break
		}
		s.Properties = map[string]structuralschema.Structural{}
		for range 1 + g.IntN(3) {
			property := g.structural(depth-1, false)
			if g.IntN(5) == 0 {
				switch property.Type {
				case "string":
					property.Default.Object = "x"
				case "integer":
					property.Default.Object = int64(1)
				case "object":
					property.Default.Object = map[string]any{}
				}
			}
			s.Properties[g.one("a", "b", "c")] = *property
		}
	case "array":
		s.Items = g.structural(depth-1, false)
	}
	return s
}

// shapedLike returns a random value that mostly fits a schema.
func (g generatorValidity) shapedLike(s *structuralschema.Structural, depth int) any {
	if g.IntN(25) == 0 {
		return g.value(2)
	}
	switch s.Type {
	case "object":
		m := map[string]any{}
		for name := range s.Properties {
			property := s.Properties[name]
			if g.IntN(5) > 0 {
				m[name] = g.shapedLike(&property, depth-1)
			}
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
			m[g.one("x", "y")] = g.shapedLike(s.AdditionalProperties.Structural, depth-1)
		}
		return m
	case "array":
		list := []any{}
		for range g.IntN(3) {
			list = append(list, g.shapedLike(s.Items, depth-1))
		}
		return list
	case "integer":
		return int64(g.IntN(3))
	}
	return g.one("a", "b", "")
}
