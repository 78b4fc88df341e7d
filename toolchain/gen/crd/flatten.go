package crd

import (
	"bytes"
	"go/token"
	"reflect"
	"slices"
	"strings"

	"kelson.dev/toolchain/loader"
)

// flat returns a type's schema without references (step 2). The caller may modify it.
func (b *builder) flat(n *loader.Named) *props {
	schema := b.named(n)
	outer := b.current
	defer func() { b.current = outer }()
	b.current, b.root, b.path = *b.api.Type(n.Decl), n, nil
	s := b.expand(schema.DeepCopy(), []string{n.String()})
	b.merge(s)
	return s
}

// expand replaces the references in s, depth first. within are the enclosing types, to detect
// recursion.
func (b *builder) expand(s *props, within []string) *props {
	if s.Ref == nil {
		children(s, func(_ string, c *props) { *c = *b.expand(c, within) })
		return s
	}
	key := *s.Ref
	if slices.Contains(within, key) {
		n := b.names[key]
		b.mistake(loader.Errorf(n.Decl.Pos(), "%s contains itself, which a schema cannot express; "+
			"mark the field that closes the cycle +kubebuilder:validation:Schemaless and +kubebuilder:pruning:PreserveUnknownFields", n.Decl.Name))
		return &props{}
	}
	typ := b.expand(b.made[key].DeepCopy(), append(slices.Clone(within), key))
	own := *s
	own.Ref = nil
	out := &props{Description: typ.Description, Title: typ.Title, ExternalDocs: typ.ExternalDocs, Example: typ.Example}
	// The field's own documentation takes precedence. Documentation is never merged.
	if own.Description != "" {
		out.Description = own.Description
	}
	if own.Title != "" {
		out.Title = own.Title
	}
	if own.ExternalDocs != nil {
		out.ExternalDocs = own.ExternalDocs
	}
	if own.Example != nil {
		out.Example = own.Example
	}
	out.AllOf = []props{*typ, own}
	return out
}

// children calls f with every schema directly inside s, and the name of the property or "".
func children(s *props, f func(string, *props)) {
	for name, p := range s.Properties {
		f(name, &p)
		s.Properties[name] = p
	}
	if s.Items != nil && s.Items.Schema != nil {
		f("", s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		f("", s.AdditionalProperties.Schema)
	}
	for _, list := range [][]props{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			f("", &list[i])
		}
	}
	if s.Not != nil {
		f("", s.Not)
	}
}

// merge merges every allOf in s into its parent, outermost first.
func (b *builder) merge(s *props) {
	parts := s.AllOf
	s.AllOf = nil
	for _, p := range parts {
		b.mergeInto(s, p)
	}
	children(s, func(name string, c *props) { b.inside(name, func() { b.merge(c) }) })
}

// inside calls f with the name of a property, or "" for elements and values, at the end of the
// path.
func (b *builder) inside(name string, f func()) {
	b.path = append(b.path, name)
	f()
	b.path = b.path[:len(b.path)-1]
}

// conflict reports that the parts of the schema at the current path have different types.
func (b *builder) conflict(one, other string) {
	pos, name := b.locate()
	b.fail(loader.Errorf(pos, "%s has type %s and type %s: its marker, its Go type and embedded fields of the same name must agree", name, one, other))
}

// locate returns the position and the name of the field at the current path, or of the last one on
// the way to it that a struct declares.
func (b *builder) locate() (token.Position, string) {
	pos, name := b.root.Decl.Pos(), b.root.Decl.Name
	at := loader.Type(b.root)
	for _, step := range b.path {
		if step == "" {
			at = elementOf(at)
			continue
		}
		owner, f := b.property(at, step)
		if f == nil {
			break
		}
		pos, name, at = f.Pos(), owner+"."+f.Name, f.Type()
	}
	return pos, name
}

// elementOf returns the type of the elements or values of a type, or the type itself.
func elementOf(t loader.Type) loader.Type {
	switch u := t.Underlying().(type) {
	case *loader.Pointer:
		return elementOf(u.Elem)
	case *loader.Slice:
		return u.Elem
	case *loader.Array:
		return u.Elem
	case *loader.Map:
		return u.Elem
	}
	return t
}

// property returns the field with a name in JSON of a struct, perhaps of an embedded one, and the
// name of the struct.
func (b *builder) property(t loader.Type, name string) (owner string, found *loader.Field) {
	st, isStruct := t.Underlying().(*loader.Struct)
	if p, ok := t.Underlying().(*loader.Pointer); ok {
		return b.property(p.Elem, name)
	}
	if !isStruct {
		return "", nil
	}
	if n, ok := t.(*loader.Named); ok {
		owner = n.Decl.Name
	}
	var embedded []*loader.Field
	for _, f := range st.Fields {
		switch json, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case json == name:
			return owner, f
		case json == "" && f.Embedded:
			embedded = append(embedded, f)
		}
	}
	for _, f := range embedded {
		if owner, found = b.property(f.Type(), name); found != nil {
			return owner, found
		}
	}
	return "", nil
}

// mergeInto adds the constraints of src to dst.
func (b *builder) mergeInto(dst *props, src props) {
	for _, part := range src.AllOf {
		b.mergeInto(dst, part)
	}
	// Two different constraints on a field must both hold, so both are added to an allOf.
	var dstOnly, srcOnly props
	disagree := false
	d, s := reflect.ValueOf(dst).Elem(), reflect.ValueOf(src)
	for i := range d.NumField() {
		from, to := s.Field(i), d.Field(i)
		switch name := d.Type().Field(i).Name; name {
		case "AllOf", "Title", "Description", "Example", "ExternalDocs":
			continue // merged above; expand has chosen the documentation
		case "Enum":
			if len(dst.Enum) == 0 && len(src.Enum) > 0 {
				dst.Enum = slices.Clone(src.Enum)
			}
			continue
		default:
			if from.IsZero() {
				continue
			}
			if to.IsZero() {
				to.Set(from)
				continue
			}
			if equal(from, to) || b.reconcile(name, dst, &src) {
				continue
			}
			reflect.ValueOf(&srcOnly).Elem().Field(i).Set(from)
			reflect.ValueOf(&dstOnly).Elem().Field(i).Set(to)
			to.SetZero()
			disagree = true
		}
	}
	if disagree {
		dst.AllOf = append(dst.AllOf, dstOnly, srcOnly)
	}
	if len(dst.Required) > 0 {
		slices.Sort(dst.Required)
		dst.Required = slices.Compact(dst.Required)
	}
}

// equal reports whether two values are equal. It returns false for pointers and incomparable
// values.
func equal(a, b reflect.Value) bool {
	return a.Comparable() && a.Kind() != reflect.Pointer && a.Equal(b)
}

// reconcile merges a field that the two schemas set to different values into dst. It returns false
// if the field cannot be merged.
func (b *builder) reconcile(name string, dst, src *props) bool {
	switch name {
	case "Properties":
		for k, v := range src.Properties {
			if p, both := dst.Properties[k]; both {
				b.inside(k, func() { b.mergeInto(&p, v) })
				dst.Properties[k] = p
			} else {
				dst.Properties[k] = v
			}
		}
	case "Required":
		dst.Required = append(slices.Clone(dst.Required), src.Required...)
	case "MinProperties":
		return *dst.MinProperties == *src.MinProperties
	case "MaxProperties":
		return *dst.MaxProperties == *src.MaxProperties
	case "Type":
		b.conflict(dst.Type, src.Type)
	case "Default":
		return bytes.Equal(dst.Default.Raw, src.Default.Raw)
	case "AdditionalProperties":
		if src.AdditionalProperties.Schema != nil {
			if dst.AdditionalProperties.Schema == nil {
				dst.AdditionalProperties.Schema = &props{}
			}
			b.inside("", func() { b.mergeInto(dst.AdditionalProperties.Schema, *src.AdditionalProperties.Schema) })
		}
	case "XPreserveUnknownFields":
		dst.XPreserveUnknownFields = src.XPreserveUnknownFields
	case "XMapType":
		dst.XMapType = src.XMapType
	case "XListType":
		dst.XListType = src.XListType
	case "XListMapKeys":
		dst.XListMapKeys = src.XListMapKeys
	case "XValidations":
		dst.XValidations = append(slices.Clone(src.XValidations), dst.XValidations...)
	default:
		return false
	}
	return true
}
