package fastpath_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"

	"kelson.dev/apiserver/fastpath/validity"
	"kelson.dev/internal/randomtest"
)

// The library finds no duplicates in a value that Lists.Valid accepts.
func TestListsAgreeWithTheLibrary(t *testing.T) {
	seed := randomtest.Seed(t)
	g := generatorValidity{rand.New(rand.NewPCG(seed, 3))}
	yes, no := 0, 0
	for range 3000 {
		schema := g.structural(3, true)
		g.special(schema)
		lists := validity.CompileLists(schema)
		for range 5 {
			object := g.shapedLike(schema, 4)
			found := listtype.ValidateListSetsAndMaps(nil, schema, asObject(object))
			if len(found) > 0 {
				no++
			}
			if lists.Valid(asObject(object)) {
				yes++
				if len(found) > 0 {
					s, _ := json.Marshal(schema)
					o, _ := json.Marshal(object)
					t.Fatalf("%s\n%s: %v", s, o, found)
				}
			}
		}
	}
	t.Logf("%d are certain, %d are wrong", yes, no)
	if yes < 1000 || no < 100 {
		t.Errorf("only %d are certain, %d are incorrect", yes, no)
	}
}

func asObject(value any) map[string]any {
	object, _ := value.(map[string]any)
	return object
}

// special turns some lists of a schema into sets and lists with keys.
func (g generatorValidity) special(s *structuralschema.Structural) {
	if s == nil {
		return
	}
	for name, property := range s.Properties {
		g.special(&property)
		s.Properties[name] = property
	}
	if s.AdditionalProperties != nil {
		g.special(s.AdditionalProperties.Structural)
	}
	g.special(s.Items)
	if s.Type != "array" || g.IntN(4) == 0 {
		return
	}
	kind := "set"
	if s.Items != nil && s.Items.Type == "object" && len(s.Items.Properties) > 0 {
		kind = "map"
		for name, property := range s.Items.Properties {
			if property.Type == "string" || property.Type == "integer" {
				s.XListMapKeys = append(s.XListMapKeys, name)
			}
		}
		if len(s.XListMapKeys) == 0 {
			return
		}
	}
	s.XListType = &kind
}
