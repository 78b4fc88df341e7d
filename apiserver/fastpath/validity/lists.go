package validity

import (
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// Lists checks that lists of type set have no duplicate elements, and that lists of type map have
// no duplicate keys. nil is the Lists of a schema without such lists. It takes 0.4 µs for an object
// of 1 KB; the library takes 16 µs (BenchmarkFastPath in package crd, also for the figures of other
// fast paths).
type Lists struct {
	members map[string]*Lists
	others  *Lists
	items   *Lists
	set     bool
	keys    []string
}

// CompileLists returns the Lists of a structural schema, or nil if it has no sets and no lists with
// keys.
func CompileLists(s *structuralschema.Structural) *Lists {
	if s == nil {
		return nil
	}
	c := &Lists{members: map[string]*Lists{}, items: CompileLists(s.Items)}
	for name := range s.Properties {
		property := s.Properties[name]
		if member := CompileLists(&property); member != nil {
			c.members[name] = member
		}
	}
	if s.AdditionalProperties != nil {
		c.others = CompileLists(s.AdditionalProperties.Structural)
	}
	if s.XListType != nil {
		switch *s.XListType {
		case "set":
			c.set = true
		case "map":
			c.keys = s.XListMapKeys
		}
	}
	if len(c.members) == 0 && c.others == nil && c.items == nil && !c.set && c.keys == nil {
		return nil
	}
	return c
}

// maxPairwise is the longest list, in elements, that Valid compares pairwise.
const maxPairwise = 32

// Valid reports whether a value certainly has no duplicates. If it returns false, the caller must
// use the library.
func (c *Lists) Valid(value any) bool {
	if c == nil {
		return true
	}
	switch v := value.(type) {
	case map[string]any:
		if c.others == nil {
			for name, member := range c.members {
				if inner, ok := v[name]; ok && !member.Valid(inner) {
					return false
				}
			}
			return true
		}
		for name, inner := range v {
			member, ok := c.members[name]
			if !ok {
				member = c.others
			}
			if !member.Valid(inner) {
				return false
			}
		}
	case []any:
		if c.set || c.keys != nil {
			if len(v) > maxPairwise {
				return false
			}
			for i := range v {
				if !c.alone(v[i], v[:i]) {
					return false
				}
			}
		}
		if c.items == nil {
			return true
		}
		for _, item := range v {
			if !c.items.Valid(item) {
				return false
			}
		}
	}
	return true
}

// alone reports whether an element certainly differs from all others, which Valid has checked
// before.
func (c *Lists) alone(element any, others []any) bool {
	if c.set {
		word, ok := element.(string)
		if !ok {
			return false
		}
		for _, other := range others {
			if other == word {
				return false
			}
		}
		return true
	}
	fields, ok := element.(map[string]any)
	if !ok {
		return false
	}
	for _, key := range c.keys {
		switch fields[key].(type) {
		case string, int64, bool:
		default: // the key may have a default
			return false
		}
	}
	for _, other := range others {
		otherFields, same := other.(map[string]any), true
		for _, key := range c.keys {
			same = same && fields[key] == otherFields[key]
		}
		if same {
			return false
		}
	}
	return true
}
