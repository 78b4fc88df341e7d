package certain

import (
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// Shape decides whether pruning, defaulting and coercion by a structural schema would leave an object unchanged, as they do with most
// stored and many submitted objects. nil is a schema that only the library understands.
type Shape struct {
	properties map[string]*Shape
	defaulted  []string // the properties that have a default
	others     *Shape   // the shape of properties that are not in properties; nil: such properties may be pruned
	items      *Shape
}

// CompileShape returns the Shape of a structural schema, or nil if only the library understands the schema.
func CompileShape(s *structuralschema.Structural) *Shape {
	if s == nil || s.XPreserveUnknownFields || s.XEmbeddedResource {
		return nil
	}
	c := &Shape{properties: make(map[string]*Shape, len(s.Properties))}
	for name := range s.Properties {
		property := s.Properties[name]
		c.properties[name] = CompileShape(&property)
		if property.Default.Object != nil {
			c.defaulted = append(c.defaulted, name)
		}
	}
	if s.AdditionalProperties != nil {
		c.others = CompileShape(s.AdditionalProperties.Structural)
	}
	c.items = CompileShape(s.Items)
	return c
}

// Unchanged reports whether pruning, defaulting and coercion would certainly not change an object. It ignores apiVersion, kind and
// metadata, which every object has. It returns false if c is nil.
func (c *Shape) Unchanged(object map[string]any) bool {
	return c != nil && c.unchangedMap(object, true)
}

func (c *Shape) unchangedMap(object map[string]any, root bool) bool {
	for name, value := range object {
		if root && (name == "apiVersion" || name == "kind" || name == "metadata") {
			continue
		}
		property, ok := c.properties[name]
		if !ok {
			property = c.others
		}
		if !property.unchanged(value) {
			return false
		}
	}
	for _, name := range c.defaulted {
		if _, ok := object[name]; !ok {
			return false
		}
	}
	return true
}

func (c *Shape) unchanged(value any) bool {
	if c == nil {
		return false
	}
	switch v := value.(type) {
	case nil: // the library may drop it or replace it by a default
		return false
	case map[string]any:
		return c.unchangedMap(v, false)
	case []any:
		for _, item := range v {
			if !c.items.unchanged(item) {
				return false
			}
		}
	}
	return true
}
