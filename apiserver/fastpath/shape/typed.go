package shape

import (
	"slices"
	"strings"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

var typedKinds = map[smd.Scalar]Kind{smd.String: Text, smd.Numeric: Number, smd.Boolean: Boolean,
	smd.Untyped: AnyScalar}

// FromTyped returns the Shape of a type of the merge library; nil if t is nil.
func FromTyped(t *typed.ParseableType) *Shape {
	if t == nil {
		return nil
	}
	b := &typedBuilder{schema: t.Schema, byName: map[string]*Shape{}}
	root := b.shapeOf(t.TypeRef)
	markKeyed(b.all)
	return root
}

// typedBuilder creates the Shapes of one schema. Types may be recursive.
type typedBuilder struct {
	schema *smd.Schema
	byName map[string]*Shape
	all    []*Shape
}

func (b *typedBuilder) shapeOf(ref smd.TypeRef) *Shape {
	if ref.NamedType != nil && ref.ElementRelationship == nil {
		if s, ok := b.byName[*ref.NamedType]; ok {
			return s
		}
	}
	a, ok := b.schema.Resolve(ref)
	if !ok {
		return nil
	}
	var s *Shape
	switch {
	case a.Scalar != nil:
		s = &Shape{Kind: typedKinds[*a.Scalar], Mixed: a.List != nil || a.Map != nil}
	case a.List != nil && a.Map == nil:
		s = &Shape{Kind: List, Atomic: a.List.ElementRelationship != smd.Associative}
	case a.Map != nil && a.List == nil:
		s = &Shape{Kind: Object, Atomic: a.Map.ElementRelationship == smd.Atomic}
	}
	if ref.NamedType != nil && ref.ElementRelationship == nil {
		b.byName[*ref.NamedType] = s
	}
	if s == nil {
		return nil
	}
	b.all = append(b.all, s)
	switch s.Kind {
	case List:
		s.Items, s.Keyed = b.shapeOf(a.List.ElementType), !s.Atomic
		for _, name := range a.List.Keys {
			s.Keys = append(s.Keys, Key{name, b.keyDefault(a.List, name)})
		}
		slices.SortFunc(s.Keys, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	case Object:
		s.Members = make(map[string]*Shape, len(a.Map.Fields))
		for _, f := range a.Map.Fields {
			s.Members[f.Name] = b.shapeOf(f.Type)
			if f.Default != nil {
				s.Defaulted = append(s.Defaulted, f.Name)
			}
		}
		if a.Map.ElementType != (smd.TypeRef{}) {
			s.Others = b.shapeOf(a.Map.ElementType)
		}
	}
	return s
}

// keyDefault returns the default of a key member.
func (b *typedBuilder) keyDefault(l *smd.List, name string) any {
	a, ok := b.schema.Resolve(l.ElementType)
	if !ok || a.Map == nil {
		return nil
	}
	f, _ := a.Map.FindField(name)
	switch v := f.Default.(type) {
	case string, int64:
		return v
	case int:
		return int64(v)
	}
	return nil
}
