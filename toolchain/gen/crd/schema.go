package crd

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

type props = apiextensionsv1.JSONSchemaProps

// builder builds the schemas of types and caches them.
type builder struct {
	api  *model.API
	opts Options

	made     map[string]*props // by type: step 1, with references
	names    map[string]*loader.Named
	errs     []error
	warnings []error
	seen     map[string]bool // error messages, because types are reached several times
	current  model.Type      // the declaration being read, for the positions of errors
	field    *model.Field
	root     *loader.Named // the type whose schema is flattened
	// to the schema in it that is merged: names of properties, and "" for elements
	path []string
}

func newBuilder(api *model.API, opts Options) *builder {
	return &builder{api: api, opts: opts, made: map[string]*props{}, names: map[string]*loader.Named{},
		seen: map[string]bool{}}
}

func (b *builder) fail(err error) {
	if !b.seen[err.Error()] {
		b.seen[err.Error()] = true
		b.errs = append(b.errs, err)
	}
}

// mistake reports an error that controller-gen ignores.
func (b *builder) mistake(err error) {
	if !b.opts.Lenient {
		b.fail(err)
	} else if !b.seen[err.Error()] {
		b.seen[err.Error()] = true
		b.warnings = append(b.warnings, err)
	}
}

// misused reports a marker that does not fit its type or field. It ignores markers in other
// modules, because the project cannot change them; they have no effect.
func (b *builder) misused(m *marker.Marker, format string, args ...any) {
	if b.current.Decl == nil || b.api.Own(b.current.Pkg) {
		b.mistake(loader.Errorf(m.Pos, "+"+m.Name+" "+format, args...))
	}
}

// failf reports an error at the field or type that the builder reads now.
func (b *builder) failf(format string, args ...any) {
	switch {
	case b.field != nil:
		b.fail(loader.Errorf(b.field.Pos(), b.current.Name+"."+b.field.Name+": "+format, args...))
	case b.current.Decl != nil:
		b.fail(loader.Errorf(b.current.Pos(), b.current.Name+": "+format, args...))
	default:
		b.fail(fmt.Errorf(format, args...))
	}
}

func (b *builder) takeErrors() []error {
	errs := b.errs
	b.errs = nil
	return errs
}

// named returns a declared type's schema with references (step 1).
func (b *builder) named(n *loader.Named) *props {
	key := n.String()
	if s := b.made[key]; s != nil {
		return s
	}
	b.names[key] = n
	if s := b.wellKnown(n); s != nil {
		b.made[key] = s
		return s
	}
	b.made[key] = &props{} // a type may refer to itself; expand reports that
	outer, outerField := b.current, b.field
	b.current, b.field = *b.api.Type(n.Decl), nil
	s := b.declared(n)
	b.current, b.field = outer, outerField
	b.made[key] = s
	return s
}

// declared does the same as named, without the cache.
func (b *builder) declared(n *loader.Named) *props {
	t := b.current
	if target, ok := n.Source().(*loader.Named); ok && n.Decl.Alias {
		s := b.reference(target)
		s.Description = t.Doc
		b.apply(s, t.Markers)
		return s
	}
	if loader.Implements(n, "MarshalJSON") {
		// The JSON form of such a type cannot be derived. The author can declare it with
		// +kubebuilder:validation:Type.
		s := &props{}
		if t.Markers.Has("kubebuilder:validation:Type") {
			b.apply(s, t.Markers)
			return s
		}
		b.ineffective(t.Markers, "has no effect, because %s marshals itself; add +kubebuilder:validation:Type with the type in JSON", t.Name)
	} else if loader.Implements(n, "MarshalText") {
		s := &props{Type: "string"}
		b.apply(s, t.Markers)
		if s.Type != "string" {
			b.failf("marshals itself as text, so its schema's type is string, not %s", s.Type)
		}
		return s
	}
	s := b.typ(n.Source())
	s.Description = t.Doc
	b.apply(s, t.Markers)
	return s
}

// typ returns the schema of any type; named types are references.
func (b *builder) typ(t loader.Type) *props {
	switch t := t.(type) {
	case *loader.Basic:
		return b.basic(t)
	case *loader.Named:
		return b.reference(t)
	case *loader.Pointer:
		return b.typ(t.Elem)
	case *loader.Slice:
		if e, ok := t.Elem.(*loader.Basic); ok && e.IsByte() {
			return &props{Type: "string", Format: "byte"}
		}
		return array(b.typ(t.Elem))
	case *loader.Array:
		return array(b.typ(t.Elem))
	case *loader.Map:
		return b.mapping(t)
	case *loader.Struct:
		return b.structure(t)
	case *loader.Invalid:
		b.fail(t.Err)
	case *loader.Interface:
		b.failf("an interface has no schema; use a concrete type, or apiextensionsv1.JSON for any value")
	case *loader.Param:
		b.failf("the type parameter %s has no schema", t.Name)
	default:
		b.failf("%s has no schema", t)
	}
	return &props{}
}

func array(items *props) *props {
	return &props{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: items}}
}

func (b *builder) basic(t *loader.Basic) *props {
	switch t.Name {
	case "bool":
		return &props{Type: "boolean"}
	case "string":
		return &props{Type: "string"}
	case "int", "int8", "int16", "uint", "uint8", "uint16", "byte", "uintptr":
		return &props{Type: "integer"}
	case "int32", "uint32", "rune":
		return &props{Type: "integer", Format: "int32"}
	case "int64", "uint64":
		return &props{Type: "integer", Format: "int64"}
	case "float32", "float64":
		if b.opts.AllowFloats {
			return &props{Type: "number"}
		}
		b.failf("%s differs between languages and loses precision; use an integer of a smaller unit, a string, or resource.Quantity", t.Name)
	default:
		b.failf("%s has no schema", t.Name)
	}
	return &props{}
}

// reference returns a reference to a named type. It includes the basic JSON type, because markers
// on the field are checked against it. Like controller-gen, it refers to an alias of a named type,
// with its markers and description, only from other packages.
func (b *builder) reference(n *loader.Named) *props {
	switch {
	case n.Via == nil:
	case n.Via.Decl.Pkg != b.current.Pkg:
		n = n.Via
	default:
		alias := b.api.Type(n.Via.Decl)
		b.ineffective(alias.Markers, "has no effect in the package of the alias %s; move it to the fields, or declare a type without \"=\"", alias.Name)
	}
	key := n.String()
	s := b.named(n)
	ref := &props{Ref: &key}
	switch u := n.Underlying().(type) {
	case *loader.Slice, *loader.Map:
		ref.Type = s.Type
	case *loader.Basic:
		ref.Type, ref.Format = s.Type, s.Format
	case *loader.Invalid:
		b.fail(u.Err)
	}
	return ref
}

// mapping returns the schema of a map. Its keys are strings or marshal themselves as text.
func (b *builder) mapping(t *loader.Map) *props {
	key, ok := t.Key.Underlying().(*loader.Basic)
	if (!ok || key.Name != "string") && !loader.Implements(t.Key, "MarshalText") {
		b.failf("a map's keys are strings in JSON, or types with a MarshalText method; %s is neither", t.Key)
		return &props{}
	}
	return &props{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: b.typ(t.Elem),
		Allows: true}}
}

// structure returns the schema of a struct. Embedded structs are in allOf, which is merged later.
func (b *builder) structure(st *loader.Struct) *props {
	s := &props{Type: "object", Properties: map[string]props{}}
	oneOf := b.oneOfFields()
	optional := b.api.PackageMarkers(b.current.Pkg).Has("kubebuilder:validation:Optional")
	var immutable []string
	outer := b.field
	defer func() { b.field = outer }()
	for _, f := range b.api.Fields(b.current.Pkg, st) {
		b.field = f
		tag, ok := f.Tag.Lookup("json")
		if !ok {
			b.failf("has no json tag")
			continue
		}
		if tag == "-" {
			continue
		}
		name, opts, _ := strings.Cut(tag, ",")
		inline, omit := name == "", false
		for o := range strings.SplitSeq(opts, ",") {
			inline = inline || o == "inline"
			omit = omit || o == "omitempty" || o == "omitzero"
		}
		if inline && !f.Embedded && name == "" {
			b.failf("has no name in its json tag")
			continue
		}
		if required(f.Markers, inline || omit || optional) {
			if slices.Contains(oneOf, name) {
				b.failf("is one of several of which not all can be set, so it cannot be required; mark it +optional with omitempty")
				continue
			}
			s.Required = append(s.Required, name)
		}
		p := &props{}
		if !f.Markers.Has("kubebuilder:validation:Schemaless") {
			p = b.typ(f.Type())
		}
		p.Description = f.Doc
		b.apply(p, f.Markers)
		if inline {
			s.AllOf = append(s.AllOf, *p)
			continue
		}
		if _, twice := s.Properties[name]; twice {
			b.failf("another field is called %q in JSON too", name)
		}
		if f.Markers.Has("k8s:immutable") {
			immutable = append(immutable, name)
		}
		s.Properties[name] = *p
	}
	slices.Sort(s.Required)
	for _, name := range immutable {
		// The rule of a field is not evaluated when the field is removed, so a rule of the struct
		// forbids the removal.
		if !slices.Contains(s.Required, name) {
			inCEL, ok := celIdentifier(name)
			if !ok {
				b.failf("a CEL rule cannot refer to the field %q: its name may have letters, digits, _, - and /, and begins with no digit", name)
				continue
			}
			s.XValidations = append(s.XValidations, apiextensionsv1.ValidationRule{
				Rule:    fmt.Sprintf("!has(oldSelf.%s) || has(self.%s)", inCEL, inCEL),
				Message: fmt.Sprintf("field %s is immutable once set", name),
			})
		}
	}
	return s
}

// required reports whether a field is required, from its markers or else from optional, the
// default.
func required(ms marker.Markers, optional bool) bool {
	switch {
	case ms.Has("kubebuilder:validation:Optional"):
		return false
	case ms.Has("kubebuilder:validation:Required"):
		return true
	case ms.Has("optional", "k8s:optional"):
		return false
	case ms.Has("required", "k8s:required"):
		return true
	}
	return !optional
}

// oneOfFields are the fields that the type's AtMostOneOf, ExactlyOneOf and AtLeastOneOf markers
// name.
func (b *builder) oneOfFields() []string {
	var names []string
	for _, m := range b.current.Markers {
		if fields, ok := m.Value.([]string); ok && oneOfRule(m.Name) != nil {
			for _, f := range fields {
				if strings.Contains(f, ".") {
					b.fail(loader.Errorf(m.Pos, "+%s: %s is not a field of this type; use field names, not paths",
						m.Name, f))
				} else if _, ok := celIdentifier(f); !ok {
					b.fail(loader.Errorf(m.Pos,
						"+%s: a CEL rule cannot refer to the field %q: its name may have letters, digits, _, - and /, and begins with no digit", m.Name, f))
				}
			}
			names = append(names, fields...)
		}
	}
	return names
}
