package managedfields

import (
	"slices"
	"strings"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Shape is what a schema says about who can own what. nil is one of which nothing is known. It never changes once it is made.
type Shape struct {
	kind    kind
	atomic  bool // of lists and maps: owned as a whole
	mixed   bool // of scalars: it may be a list or a map as well, as a number or a name may be by their schema
	keyed   bool // it has lists in it whose elements are known by something
	keys    []key
	items   *Shape // of lists
	members map[string]*Shape
	others  *Shape // the members that are not named
}

// key is one of the members that elements of a list are known by.
type key struct {
	name     string
	fallback scalar // what it is where an element has none; of no kind: then there must be one
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

// ShapeOf gives the shape of a type; nil if there is none.
func ShapeOf(t *typed.ParseableType) *Shape {
	if t == nil {
		return nil
	}
	m := &shapes{schema: t.Schema, made: map[string]*Shape{}}
	root := m.of(t.TypeRef)
	m.findKeyed()
	return root
}

// shapes makes those of one schema. Types may refer to themselves.
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

// fallback is the default of a member that elements of a list are known by.
func (m *shapes) fallback(l *smd.List, name string) scalar {
	a, ok := m.schema.Resolve(l.ElementType)
	if !ok || a.Map == nil {
		return scalar{}
	}
	f, _ := a.Map.FindField(name)
	s, _ := scalarOf(f.Default)
	return s
}

// findKeyed carries keyed from parts to wholes.
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

// member gives the shape of a member, and whether it is one that the type names.
func (s *Shape) member(name string) (member *Shape, declared bool) {
	if m, ok := s.members[name]; ok {
		return m, true
	}
	return s.others, false
}

// leaf says that it has no parts that could be owned.
func (s *Shape) leaf() bool { return s.kind > list || s.atomic }

// has says whether a value of a tree is of the kind.
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
