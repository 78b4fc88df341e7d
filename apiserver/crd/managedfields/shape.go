package managedfields

import (
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// shape is the part of a schema that determines ownership of fields. nil stands for a schema that only the library understands.
type shape struct {
	kind    kind
	atomic  bool     // lists and maps: owned as a whole
	keys    []string // lists of type map: the sorted names of the key members
	items   *shape   // lists
	members map[string]*shape
	others  *shape // the shape of members that are not in members
}

type kind int

const (
	object kind = iota
	list
	text
	integer
	number
	boolean
	integerOrText
)

var kinds = map[string]kind{"object": object, "array": list, "string": text, "integer": integer, "number": number, "boolean": boolean}

func shapeOf(s *structuralschema.Structural) *shape {
	if s == nil || s.XPreserveUnknownFields || s.XEmbeddedResource {
		return nil
	}
	if s.XIntOrString {
		return &shape{kind: integerOrText}
	}
	k, ok := kinds[s.Type]
	if !ok {
		return nil
	}
	out := &shape{kind: k}
	switch k {
	case object:
		out.atomic = s.XMapType != nil && *s.XMapType == "atomic"
		out.members = make(map[string]*shape, len(s.Properties))
		for name := range s.Properties {
			member := s.Properties[name]
			out.members[name] = shapeOf(&member)
		}
		if s.AdditionalProperties != nil && len(s.Properties) == 0 {
			out.others = shapeOf(s.AdditionalProperties.Structural)
		}
	case list:
		out.atomic = s.XListType == nil || *s.XListType == "atomic"
		out.items = shapeOf(s.Items)
		if !out.atomic && *s.XListType == "map" {
			out.keys = slices.Sorted(slices.Values(s.XListMapKeys))
		}
	}
	return out
}

func (s *shape) member(name string) *shape {
	if s == nil {
		return nil
	}
	if m, ok := s.members[name]; ok {
		return m
	}
	return s.others
}

// has reports whether a scalar has the shape's kind.
func (s *shape) has(value any) bool {
	switch value.(type) {
	case string:
		return s.kind == text || s.kind == integerOrText
	case int64:
		return s.kind == integer || s.kind == number || s.kind == integerOrText
	case float64:
		return s.kind == number
	case bool:
		return s.kind == boolean
	}
	return false
}

// takes reports whether all parts of a value are in the schema and have the right kinds.
func (s *shape) takes(value any) bool {
	if s == nil {
		return false
	}
	switch v := value.(type) {
	case map[string]any:
		if s.kind != object {
			return false
		}
		for name, member := range v {
			if !s.member(name).takes(member) {
				return false
			}
		}
		return true
	case []any:
		if s.kind != list || !s.atomic {
			return false
		}
		for _, element := range v {
			if !s.items.takes(element) {
				return false
			}
		}
		return true
	default:
		return s.has(value)
	}
}
