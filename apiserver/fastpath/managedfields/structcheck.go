package managedfields

import (
	"reflect"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/value"

	"kelson.dev/apiserver/fastpath/shape"
)

// check finds values that the library refuses to merge although their Go type allows them: list
// elements without any of the list's keys, and raw JSON that does not have the type in the schema.
// Stored objects can have such values, because validation does not look at them. The library then
// answers every apply with an error.
//
// newCheck prunes a check to the fields that can hold such values, so that most kinds have very
// little to check. nil is a check that accepts every value.
type check struct {
	shape   *shape.Shape
	never   bool         // only the library can decide
	raw     bool         // the value is raw JSON
	keys    bool         // the elements of the list can lack all keys
	fields  []fieldCheck // fields of a struct
	element *check       // element of a list, a map or a pointer
}

type fieldCheck struct {
	field *value.FieldCacheEntry
	*check
}

// newObjectCheck returns the check of the type of an object. It omits the object's own
// managedFields, which the library does not merge.
func newObjectCheck(t reflect.Type, s *shape.Shape) *check {
	c := newCheck(t, s)
	if c == nil || c.never {
		return c
	}
	kept := c.fields[:0]
	for _, f := range c.fields {
		if f.field.JsonName == "metadata" {
			f.fields = slices.DeleteFunc(f.fields, func(f fieldCheck) bool {
				return f.field.JsonName == "managedFields"
			})
			if len(f.fields) == 0 {
				continue
			}
		}
		kept = append(kept, f)
	}
	c.fields = kept
	if len(kept) == 0 {
		return nil
	}
	return c
}

// newCheck returns the check of a type. within are the types that contain it.
func newCheck(t reflect.Type, s *shape.Shape, within ...reflect.Type) *check {
	c := &check{shape: s}
	if value.TypeReflectEntryOf(t).CanConvertToUnstructured() {
		c.raw = true
		if s == nil || s.Kind > shape.List {
			return nil
		}
		return c
	}
	switch t.Kind() {
	case reflect.Struct:
		for _, outer := range within {
			if outer == t {
				return &check{never: true}
			}
		}
		within = append(within[:len(within):len(within)], t)
		for _, f := range value.TypeReflectEntryOf(t).OrderedFields() {
			member, _ := s.Member(f.JsonName)
			if inner := newCheck(f.GetFrom(reflect.New(t).Elem()).Type(), member, within...); inner != nil {
				c.fields = append(c.fields, fieldCheck{f, inner})
			}
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil
		}
		if s != nil {
			c.keys = !s.Atomic && len(s.Keys) > 0 && canLackKeys(t.Elem(), s)
			c.element = newCheck(t.Elem(), s.Items, within...)
		}
	case reflect.Map:
		if s != nil {
			c.element = newCheck(t.Elem(), s.Others, within...)
		}
	case reflect.Pointer:
		c.element = newCheck(t.Elem(), s, within...)
	case reflect.Interface:
		return &check{never: true}
	}
	if !c.keys && c.element == nil && len(c.fields) == 0 {
		return nil
	}
	return c
}

// canLackKeys reports whether elements of a list can have no key member, and none has a default.
func canLackKeys(t reflect.Type, s *shape.Shape) bool {
	if t.Kind() != reflect.Struct {
		return true
	}
	empty, fields := reflect.New(t).Elem(), value.TypeReflectEntryOf(t).Fields()
	for _, k := range s.Keys {
		if f, ok := fields[k.Name]; k.Default != nil || ok && !f.CanOmit(f.GetFrom(empty)) {
			return false
		}
	}
	return true
}

// accepts reports whether a value certainly has no part that the library refuses to merge.
func (c *check) accepts(v reflect.Value) bool {
	switch {
	case c == nil:
		return true
	case c.never:
		return false
	case c.raw:
		return c.acceptsRaw(v)
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range c.fields {
			if f := &c.fields[i]; !f.accepts(f.field.GetFrom(v)) {
				return false
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if c.keys && !c.hasKey(v.Index(i)) || !c.element.accepts(v.Index(i)) {
				return false
			}
		}
	case reflect.Map:
		for members := v.MapRange(); members.Next(); {
			if !c.element.accepts(members.Value()) {
				return false
			}
		}
	case reflect.Pointer:
		return v.IsNil() || c.element.accepts(v.Elem())
	}
	return true
}

func (c *check) hasKey(element reflect.Value) bool {
	if element.Kind() != reflect.Struct {
		return false
	}
	fields := value.TypeReflectEntryOf(element.Type()).Fields()
	for _, k := range c.shape.Keys {
		if f, ok := fields[k.Name]; ok && !f.CanOmit(f.GetFrom(element)) {
			return true
		}
	}
	return false
}

func (c *check) acceptsRaw(v reflect.Value) bool {
	if v.Kind() == reflect.Pointer && v.IsNil() || v.IsZero() {
		return true
	}
	tree, err := value.TypeReflectEntryOf(v.Type()).ToUnstructured(v)
	if err != nil {
		return false
	}
	switch tree.(type) {
	case nil:
		return true
	case map[string]any:
		return c.shape.Kind == shape.Object
	case []any:
		return c.shape.Kind == shape.List && c.shape.Atomic
	}
	return false
}
