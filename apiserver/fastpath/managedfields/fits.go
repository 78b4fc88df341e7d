package managedfields

import "kelson.dev/apiserver/fastpath/shape"

// member returns the shape of a member; nil if s is nil or has no such member.
func member(s *shape.Shape, name string) *shape.Shape {
	m, _ := s.Member(name)
	return m
}

// member returns the shape of a top-level field.
func (m *Manager) member(name string) *shape.Shape { return member(m.Shape, name) }

// fits reports whether all parts of a value are in the schema and have the right kinds.
func fits(s *shape.Shape, value any) bool {
	if s == nil {
		return false
	}
	switch v := value.(type) {
	case map[string]any:
		if s.Kind != shape.Object {
			return false
		}
		for name, inner := range v {
			if !fits(member(s, name), inner) {
				return false
			}
		}
		return true
	case []any:
		if s.Kind != shape.List || !s.Atomic {
			return false
		}
		for _, element := range v {
			if !fits(s.Items, element) {
				return false
			}
		}
		return true
	default:
		return s.Has(value)
	}
}
