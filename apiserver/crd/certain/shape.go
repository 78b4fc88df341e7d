package certain

import (
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// Shape knows which objects have their shape already: pruning, defaulting and coercing them by their structural schema would change
// nothing. They are most of those that are stored, and many of those that are sent. nil is one of which nothing is known.
type Shape struct {
	properties map[string]*Shape
	defaulted  []string // those of them that have a default
	others     *Shape   // what properties have that are not named; nil: there are none, as far as is known
	items      *Shape
}

// CompileShape reads a structural schema.
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

// Settled says that an object has its shape. Its apiVersion, kind and metadata are not looked at: all objects have these.
func (c *Shape) Settled(object map[string]any) bool {
	return c != nil && c.settledMap(object, true)
}

func (c *Shape) settledMap(object map[string]any, root bool) bool {
	for name, value := range object {
		if root && (name == "apiVersion" || name == "kind" || name == "metadata") {
			continue
		}
		property, ok := c.properties[name]
		if !ok {
			property = c.others
		}
		if !property.settled(value) {
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

func (c *Shape) settled(value any) bool {
	if c == nil {
		return false
	}
	switch v := value.(type) {
	case nil: // may be dropped, or replaced by a default
		return false
	case map[string]any:
		return c.settledMap(v, false)
	case []any:
		for _, item := range v {
			if !c.items.settled(item) {
				return false
			}
		}
	}
	return true
}
