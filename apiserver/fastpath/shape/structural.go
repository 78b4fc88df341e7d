package shape

import (
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

var structuralKinds = map[string]Kind{
	"object": Object, "array": List, "string": Text, "integer": Integer, "number": Number, "boolean": Boolean,
}

// FromStructural returns the Shape of the schema of a custom kind. Its metadata is the same for all
// custom kinds and does not depend on the schema. FromStructural returns nil if s is nil, or keeps
// unknown fields.
func FromStructural(s *structuralschema.Structural) *Shape {
	b := &structuralBuilder{}
	root := b.shapeOf(s)
	if root == nil {
		return nil
	}
	root.Members["metadata"] = metadata
	markKeyed(b.all)
	return root
}

// metadata has the fields that clients usually set and those that identify an object. The library
// handles all other schemas.
var metadata = &Shape{Kind: Object, Members: map[string]*Shape{
	"name": text, "namespace": text, "uid": text, "selfLink": text, "resourceVersion": text, "creationTimestamp": text,
	"generation":   {Kind: Number},
	"generateName": text, "labels": {Kind: Object, Others: text}, "annotations": {Kind: Object, Others: text},
}}

var text = &Shape{Kind: Text}

type structuralBuilder struct{ all []*Shape }

// shapeOf returns a shape whose Kind is Unknown if the schema has no type.
func (b *structuralBuilder) shapeOf(s *structuralschema.Structural) *Shape {
	if s == nil || s.XPreserveUnknownFields || s.XEmbeddedResource {
		return nil
	}
	out := &Shape{Kind: structuralKinds[s.Type], Members: make(map[string]*Shape, len(s.Properties))}
	if s.XIntOrString {
		out.Kind = IntegerOrText
	}
	b.all = append(b.all, out)
	for name := range s.Properties {
		property := s.Properties[name]
		out.Members[name] = b.shapeOf(&property)
		if free(&property) {
			if out.Free == nil {
				out.Free = map[string]Kind{}
			}
			out.Free[name] = structuralKinds[property.Type]
		}
		if property.Default.Object != nil {
			out.Defaulted = append(out.Defaulted, name)
		}
	}
	if s.AdditionalProperties != nil {
		out.Others = b.shapeOf(s.AdditionalProperties.Structural)
	}
	out.Items = b.shapeOf(s.Items)
	switch out.Kind {
	case Object:
		out.Atomic = s.XMapType != nil && *s.XMapType == "atomic"
	case List:
		out.Atomic = s.XListType == nil || *s.XListType == "atomic"
		out.Keyed = !out.Atomic
		if !out.Atomic && *s.XListType == "map" {
			for _, name := range s.XListMapKeys { // their defaults are left to the library
				out.Keys = append(out.Keys, Key{Name: name})
			}
			slices.SortFunc(out.Keys, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
		}
	}
	return out
}

// free reports whether a schema accepts any content: it keeps unknown fields, and declares none.
func free(s *structuralschema.Structural) bool {
	return s.XPreserveUnknownFields && !s.XEmbeddedResource && (s.Type == "" || s.Type == "object") &&
		!s.XIntOrString &&
		len(s.Properties) == 0 && s.AdditionalProperties == nil && s.Items == nil
}
