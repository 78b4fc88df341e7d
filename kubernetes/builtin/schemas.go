package builtin

import (
	_ "embed"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"kelson.dev/apiserver/fastpath/shape"
)

// schemas is the managedfields.TypeConverter of all built-in kinds: it determines which lists merge
// by which keys. It builds the schema of a kind on first use, from the types that the kind reaches.
// It is safe for concurrent use.
//
// Kubernetes builds its converter from the OpenAPI definitions of all types, which costs 10 ms and
// 10 MB per process. This converter parses a text that a test generates from those definitions.
type schemas struct {
	mu     sync.Mutex
	lines  map[string]string // name of a type → its line in the text; nil until first use
	types  map[string]smd.TypeDef
	kinds  map[schema.GroupVersionKind]*typed.ParseableType
	shapes map[schema.GroupVersionKind]*shape.Shape
}

// sharedSchemas returns the schemas that all control planes of a process share.
var sharedSchemas = sync.OnceValue(func() *schemas {
	return &schemas{types: map[string]smd.TypeDef{}, kinds: map[schema.GroupVersionKind]*typed.ParseableType{},
		shapes: map[schema.GroupVersionKind]*shape.Shape{}}
})

//go:generate go test -run TestSchemaText -update .
//go:embed schemas.txt
var schemaText string

func (s *schemas) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	t, err := s.typeOf(obj.GetObjectKind().GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if t == nil {
		return noSchemas().ObjectToTyped(obj, opts...)
	}
	if u, ok := obj.(runtime.Unstructured); ok {
		return t.FromUnstructured(u.UnstructuredContent(), opts...)
	}
	return t.FromStructured(obj, opts...)
}

// TypedToObject needs no schema.
func (s *schemas) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	return managedfields.NewDeducedTypeConverter().TypedToObject(value)
}

// noSchemas returns the error by which the library recognizes unknown kinds.
var noSchemas = sync.OnceValue(func() managedfields.TypeConverter {
	none, err := managedfields.NewTypeConverter(nil, false)
	if err != nil {
		panic(err) // of a nil object
	}
	return none
})

// typeOf returns the type of a kind, or nil for one that is not in the text.
func (s *schemas) typeOf(kind schema.GroupVersionKind) (*typed.ParseableType, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.kinds[kind]; ok {
		return t, nil
	}
	obj, err := Scheme().New(kind)
	if err != nil {
		return nil, err
	}
	named, ok := obj.(interface{ OpenAPIModelName() string })
	if !ok {
		return nil, nil
	}
	if s.lines == nil {
		s.lines = splitSchemaText(schemaText)
	}
	name := named.OpenAPIModelName()
	if _, ok := s.lines[name]; !ok {
		return nil, nil
	}
	reached := map[string]smd.TypeDef{}
	if err := s.collect(name, reached); err != nil {
		return nil, fmt.Errorf("make schema of %s: %w", kind, err)
	}
	parser := &typed.Parser{}
	for _, def := range reached {
		parser.Schema.Types = append(parser.Schema.Types, def)
	}
	t := parser.Type(name)
	s.kinds[kind] = &t
	return &t, nil
}

// shape returns the Shape of a kind, or nil for one that is not in the text.
func (s *schemas) shape(kind schema.GroupVersionKind) (*shape.Shape, error) {
	t, err := s.typeOf(kind)
	if t == nil || err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	cached, ok := s.shapes[kind]
	if !ok {
		cached = shape.FromTyped(t)
		s.shapes[kind] = cached
	}
	return cached, nil
}

// collect adds a type and all types that it refers to.
func (s *schemas) collect(name string, reached map[string]smd.TypeDef) error {
	if _, ok := reached[name]; ok {
		return nil
	}
	def, ok := s.types[name]
	if !ok {
		line, known := s.lines[name]
		if !known {
			return fmt.Errorf("no type %q", name)
		}
		atom, err := parseAtom(line)
		if err != nil {
			return fmt.Errorf("type %q: %w", name, err)
		}
		def = smd.TypeDef{Name: name, Atom: atom}
		s.types[name] = def
	}
	reached[name] = def
	return references(def.Atom, func(name string) error { return s.collect(name, reached) })
}

// references calls the function each with every type to which an atom refers.
func references(a smd.Atom, each func(name string) error) error {
	ref := func(r smd.TypeRef) error {
		if r.NamedType != nil {
			return each(*r.NamedType)
		}
		return references(r.Inlined, each)
	}
	if a.List != nil {
		if err := ref(a.List.ElementType); err != nil {
			return err
		}
	}
	if a.Map != nil {
		for _, f := range a.Map.Fields {
			if err := ref(f.Type); err != nil {
				return err
			}
		}
		return ref(a.Map.ElementType)
	}
	return nil
}
