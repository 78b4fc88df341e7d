package managedfields

import "kelson.dev/apiserver/fastpath/shape"

// member returns the shape of a member; nil if s is nil or has no such member.
func member(s *shape.Shape, name string) *shape.Shape {
	m, _ := s.Member(name)
	return m
}

// member returns the shape of a top-level field.
func (m *MapManager) member(name string) *shape.Shape { return member(m.Shape, name) }

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

// accepts reports whether the merge library would certainly accept a live object. It refuses to
// merge objects with parts that do not fit the schema. Stored objects can contain such parts,
// because validation skips parts that a write does not change, and a later version of the schema
// may have another type.
func (m *MapManager) accepts(object map[string]any) bool {
	if m.Shape == nil {
		return false
	}
	for name, value := range object {
		switch name {
		case "apiVersion", "kind", "metadata": // decoding checks them
		default:
			if !acceptsMember(m.Shape, name, value) {
				return false
			}
		}
	}
	return true
}

func acceptsMember(s *shape.Shape, name string, value any) bool {
	if inner := member(s, name); inner != nil {
		return value == nil || accepts(inner, value)
	}
	kind, free := s.Free[name]
	if !free || kind == shape.Unknown {
		return free
	}
	_, isMap := value.(map[string]any)
	return isMap
}

// accepts reports whether the library would certainly merge a value that is not null.
func accepts(s *shape.Shape, value any) bool {
	switch v := value.(type) {
	case map[string]any:
		if s.Kind != shape.Object {
			return false
		}
		for name, value := range v {
			if !acceptsMember(s, name, value) {
				return false
			}
		}
		return true
	case []any:
		if s.Kind != shape.List || s.Items == nil {
			return false
		}
		for _, element := range v {
			if element == nil || !s.Atomic && !hasKeys(s, element) || !accepts(s.Items, element) {
				return false
			}
		}
		return true
	}
	return s.Has(value)
}

// hasKeys reports whether an element of a list has all its keys.
func hasKeys(s *shape.Shape, element any) bool {
	if len(s.Keys) == 0 {
		return true
	}
	members, ok := element.(map[string]any)
	if !ok {
		return false
	}
	for _, k := range s.Keys {
		switch members[k.Name].(type) {
		case string, int64, bool:
		default:
			return false
		}
	}
	return true
}
