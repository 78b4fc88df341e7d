package managedfields

import (
	"slices"
	"strings"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Shape is the part of a schema that determines ownership of fields. nil is a schema that only the library understands. A Shape is
// immutable.
type Shape struct {
	kind    kind
	atomic  bool // lists and maps: owned as a whole
	mixed   bool // scalars: the schema allows a list or a map too, as for IntOrString
	keyed   bool // contains lists whose elements have keys
	keys    []key
	items   *Shape // lists
	members map[string]*Shape
	others  *Shape // the shape of members that are not in members
}

// key is one key member of a list's elements.
type key struct {
	name     string
	fallback scalar // the default; of kind unknown if elements must have the member
}

type kind int

const (
	unknown kind = iota
	object
	list
	text
	number
	boolean
	anyScalar
)

var scalars = map[smd.Scalar]kind{smd.String: text, smd.Numeric: number, smd.Boolean: boolean, smd.Untyped: anyScalar}

// ShapeOf returns the Shape of a type; nil if t is nil.
func ShapeOf(t *typed.ParseableType) *Shape {
	if t == nil {
		return nil
	}
	m := &shapes{schema: t.Schema, made: map[string]*Shape{}}
	root := m.of(t.TypeRef)
	m.findKeyed()
	return root
}

// shapes creates the Shapes of one schema. Types may be recursive.
type shapes struct {
	schema *smd.Schema
	made   map[string]*Shape
	all    []*Shape
}

func (m *shapes) of(ref smd.TypeRef) *Shape {
	if ref.NamedType != nil && ref.ElementRelationship == nil {
		if s, ok := m.made[*ref.NamedType]; ok {
			return s
		}
	}
	a, ok := m.schema.Resolve(ref)
	if !ok {
		return nil
	}
	var s *Shape
	switch {
	case a.Scalar != nil:
		s = &Shape{kind: scalars[*a.Scalar], mixed: a.List != nil || a.Map != nil}
	case a.List != nil && a.Map == nil:
		s = &Shape{kind: list, atomic: a.List.ElementRelationship != smd.Associative}
	case a.Map != nil && a.List == nil:
		s = &Shape{kind: object, atomic: a.Map.ElementRelationship == smd.Atomic}
	}
	if ref.NamedType != nil && ref.ElementRelationship == nil {
		m.made[*ref.NamedType] = s
	}
	if s == nil {
		return nil
	}
	m.all = append(m.all, s)
	switch s.kind {
	case list:
		s.items, s.keyed = m.of(a.List.ElementType), !s.atomic
		for _, name := range a.List.Keys {
			s.keys = append(s.keys, key{name, m.fallback(a.List, name)})
		}
		slices.SortFunc(s.keys, func(a, b key) int { return strings.Compare(a.name, b.name) })
	case object:
		s.members = make(map[string]*Shape, len(a.Map.Fields))
		for _, f := range a.Map.Fields {
			s.members[f.Name] = m.of(f.Type)
		}
		if a.Map.ElementType != (smd.TypeRef{}) {
			s.others = m.of(a.Map.ElementType)
		}
	}
	return s
}

// fallback returns the default of a key member.
func (m *shapes) fallback(l *smd.List, name string) scalar {
	a, ok := m.schema.Resolve(l.ElementType)
	if !ok || a.Map == nil {
		return scalar{}
	}
	f, _ := a.Map.FindField(name)
	s, _ := scalarOf(f.Default)
	return s
}

// findKeyed sets keyed on all shapes that contain a keyed one.
func (m *shapes) findKeyed() {
	for again := true; again; {
		again = false
		for _, s := range m.all {
			if !s.keyed && s.hasKeyed() {
				s.keyed, again = true, true
			}
		}
	}
}

func (s *Shape) hasKeyed() bool {
	if s.items.isKeyed() || s.others.isKeyed() {
		return true
	}
	for _, member := range s.members {
		if member.isKeyed() {
			return true
		}
	}
	return false
}

func (s *Shape) isKeyed() bool { return s != nil && s.keyed }

// member returns the shape of a member, and whether the type names the member.
func (s *Shape) member(name string) (member *Shape, declared bool) {
	if m, ok := s.members[name]; ok {
		return m, true
	}
	return s.others, false
}

// leaf reports whether the shape has no parts that managers can own.
func (s *Shape) leaf() bool { return s.kind > list || s.atomic }

// has reports whether a value of a tree has the shape's kind.
func (s *Shape) has(value any) bool {
	switch value.(type) {
	case string:
		return s.kind == text || s.kind == anyScalar
	case int64, float64:
		return s.kind == number || s.kind == anyScalar
	case bool:
		return s.kind == boolean || s.kind == anyScalar
	}
	return false
}
