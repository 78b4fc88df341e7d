package fastpath_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"kelson.dev/apiserver/fastpath/fieldset"
	"kelson.dev/apiserver/fastpath/shape"
	"kelson.dev/internal/randomtest"
	"kelson.dev/internal/require"
)

// generatorFieldset generates random schemas and objects.
type generatorFieldset struct {
	*rand.Rand
	types []schema.TypeDef
}

func (g *generatorFieldset) one(of ...string) string { return of[g.IntN(len(of))] }

// named adds a type and returns a reference to it.
func (g *generatorFieldset) named(a schema.Atom) schema.TypeRef {
	name := fmt.Sprint("t", len(g.types))
	g.types = append(g.types, schema.TypeDef{Name: name, Atom: a})
	return schema.TypeRef{NamedType: &name}
}

func scalar(s schema.Scalar) schema.TypeRef {
	return schema.TypeRef{Inlined: schema.Atom{Scalar: &s}}
}

func (g *generatorFieldset) scalar() schema.TypeRef {
	return scalar([]schema.Scalar{schema.String, schema.Numeric, schema.Boolean, schema.Untyped}[g.IntN(4)])
}

// relationship returns separable for maps and associative for lists, or atomic.
func (g *generatorFieldset) relationship(parts schema.ElementRelationship) schema.ElementRelationship {
	if g.IntN(4) == 0 {
		return schema.Atomic
	}
	return parts
}

func (g *generatorFieldset) object(depth int, fields ...schema.StructField) schema.Atom {
	for _, name := range []string{"a", "b", "c", "é"}[:1+g.IntN(4)] {
		fields = append(fields, schema.StructField{Name: name, Type: g.schema(depth - 1)})
	}
	return schema.Atom{Map: &schema.Map{Fields: fields, ElementRelationship: g.relationship(schema.Separable)}}
}

func (g *generatorFieldset) schema(depth int) schema.TypeRef {
	if depth <= 0 {
		return g.scalar()
	}
	switch g.IntN(6) {
	case 0:
		return g.scalar()
	case 1:
		return g.named(g.object(depth))
	case 2:
		return g.named(schema.Atom{Map: &schema.Map{ElementType: g.schema(depth - 1),
			ElementRelationship: g.relationship(schema.Separable)}})
	case 3:
		return g.named(schema.Atom{List: &schema.List{ElementType: scalar(schema.String),
			ElementRelationship: g.relationship(schema.Associative)}})
	}
	key := schema.StructField{Name: "name", Type: scalar(schema.String)}
	number := schema.StructField{Name: "at", Type: scalar(schema.Numeric)}
	if g.IntN(2) == 0 {
		key.Default = "x"
	}
	keys := [][]string{{"name"}, {"at"}, {"name", "at"}}[g.IntN(3)]
	elements := g.object(depth-1, key, number)
	elements.Map.ElementRelationship = schema.Separable
	return g.named(schema.Atom{List: &schema.List{ElementType: g.named(elements),
		ElementRelationship: g.relationship(schema.Associative), Keys: keys}})
}

// root returns the type of objects.
func (g *generatorFieldset) root() *typed.ParseableType {
	g.types = nil
	labels := g.named(schema.Atom{Map: &schema.Map{ElementType: scalar(schema.String)}})
	metadata := g.named(schema.Atom{Map: &schema.Map{Fields: []schema.StructField{
		{Name: "name", Type: scalar(schema.String)}, {Name: "uid", Type: scalar(schema.String)},
		{Name: "labels", Type: labels},
	}}})
	root := g.object(3, schema.StructField{Name: "apiVersion", Type: scalar(schema.String)},
		schema.StructField{Name: "kind", Type: scalar(schema.String)},
		schema.StructField{Name: "metadata", Type: metadata})
	root.Map.ElementRelationship = schema.Separable
	ref := g.named(root)
	return &typed.ParseableType{Schema: &schema.Schema{Types: g.types}, TypeRef: ref}
}

// value returns a value of a type and, occasionally, one of another type.
func (g *generatorFieldset) value(s *schema.Schema, ref schema.TypeRef) any {
	switch g.IntN(150) {
	case 0:
		return nil
	case 1:
		return []any{"x", int64(1), map[string]any{"x": "y"}, []any{}, map[string]any{}, []any{nil}}[g.IntN(6)]
	}
	a, _ := s.Resolve(ref)
	switch {
	case a.Scalar != nil:
		return g.scalarValue(*a.Scalar)
	case a.List != nil:
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.value(s, a.List.ElementType))
		}
		return list
	}
	members := map[string]any{}
	for _, f := range a.Map.Fields {
		if g.IntN(3) > 0 {
			members[f.Name] = g.value(s, f.Type)
		}
	}
	if a.Map.ElementType != (schema.TypeRef{}) {
		for range g.IntN(3) {
			members[g.one("k", "l", `q"<`)] = g.value(s, a.Map.ElementType)
		}
	}
	return members
}

func (g *generatorFieldset) scalarValue(s schema.Scalar) any {
	switch s {
	case schema.String:
		return g.one("", "x", "y", "z", "é")
	case schema.Numeric:
		if g.IntN(8) == 0 {
			return 0.5
		}
		return int64([]int{0, 1, 9, 10, -3}[g.IntN(5)])
	case schema.Boolean:
		return g.IntN(2) == 0
	}
	return []any{"x", int64(1), true}[g.IntN(3)]
}

// TestObjectMatchesLibrary encodes the fields of random objects of random schemas, as the applier
// and as the creator of the object, with a Writer and with the merge library.
func TestObjectMatchesLibrary(t *testing.T) {
	g := &generatorFieldset{Rand: rand.New(rand.NewPCG(randomtest.Seed(t), 3))}
	rounds, answered, refused := 6000, 0, 0
	for range rounds {
		kind := g.root()
		s := shape.FromTyped(kind)
		for range 5 {
			object, ok := g.value(kind.Schema, kind.TypeRef).(map[string]any)
			if !ok {
				continue
			}
			object["apiVersion"], object["kind"] = "example.com/v1", "Widget" // callers check these
			options := fieldset.Options{Created: g.IntN(2) == 0, Nulls: g.IntN(2) == 0}
			if g.IntN(4) == 0 {
				options.Reset = []string{"a"}
			}
			w := fieldset.NewWriter()
			ok = w.Object(object, s, options)
			got := string(w.Raw)
			w.Free()
			if !ok {
				refused++
				continue
			}
			answered++
			shown, _ := json.Marshal(object)
			want, err := libraryFields(kind, object, options)
			require.NoErrorf(t, err, "%s\ngot  %s\nwant", shown, got)
			require.Equalf(t, got, want, "%s with %+v", shown, options)
		}
	}
	t.Logf("answered %d, left %d to the library", answered, refused)
	if answered < rounds {
		t.Errorf("answered %d of %d objects, and left %d to the library", answered, answered+refused, refused)
	}
}

// libraryFields returns the set that the merge library determines.
func libraryFields(kind *typed.ParseableType, object map[string]any, o fieldset.Options) (string, error) {
	is, err := kind.FromUnstructured(object)
	if err != nil {
		return "", err
	}
	set, err := is.ToFieldSet()
	if err != nil {
		return "", err
	}
	if o.Created {
		none, err := kind.FromUnstructured(map[string]any{})
		if err != nil {
			return "", err
		}
		compared, err := none.Compare(is)
		if err != nil {
			return "", err
		}
		set = compared.Modified.Union(compared.Added)
	}
	set = set.Difference(fieldset.Unowned())
	if len(o.Reset) > 0 {
		set = fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie(o.Reset[0]))).Filter(set)
	}
	raw, err := set.ToJSON()
	return string(raw), err
}

// TestKeyOrderMatchesLibrary compares the order of keys with the order of the library's keys.
func TestKeyOrderMatchesLibrary(t *testing.T) {
	list := &shape.Shape{Kind: shape.List, Keys: []shape.Key{{Name: "a"}, {Name: "b", Default: int64(5)}}}
	g := &generatorFieldset{Rand: rand.New(rand.NewPCG(randomtest.Seed(t), 4))}
	for range 2000 {
		pick := func() map[string]any {
			m := map[string]any{"a": g.one("", "x", "xy", "y")}
			if g.IntN(4) > 0 {
				m["b"] = int64(g.IntN(13) - 2)
			}
			return m
		}
		x, y := pick(), pick()
		a, okA := fieldset.ElementKeyOf(x, list)
		b, okB := fieldset.ElementKeyOf(y, list)
		if !okA || !okB {
			t.Fatal("no key of ", x, y)
		}
		if want := pathElement(x).Compare(pathElement(y)); sign(a.Compare(b)) != want {
			t.Fatalf("%v and %v: %d, not %d", x, y, a.Compare(b), want)
		}
	}
}

func pathElement(element map[string]any) fieldpath.PathElement {
	at, ok := element["b"]
	if !ok {
		at = int64(5)
	}
	return fieldpath.MakePathOrDie(fieldpath.KeyByFields("a", element["a"], "b", at))[0]
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}
