package deepcopy

import (
	"fmt"
	"go/ast"
	"slices"

	"kelson.dev/toolchain/loader"
)

// methods are the hand-written copy methods of a type.
type methods struct {
	copy, copyPtr bool // there is a DeepCopy; its receiver and result are pointers
	into          bool // DeepCopyInto
}

func (m methods) any() bool { return m.copy || m.into }

// manual returns the hand-written copy methods of t, or of the type that t points to. Generated
// files are not read, so their methods do not count.
func manual(t loader.Type) methods {
	var m methods
	if c := loader.FindMethod(t, "DeepCopy"); c != nil && c.Func.Type.Params.NumFields() == 0 &&
		c.Func.Type.Results.NumFields() == 1 {
		m.copy, m.copyPtr = true, c.Pointer
	}
	if c := loader.FindMethod(t, "DeepCopyInto"); c != nil && c.Func.Type.Params.NumFields() == 1 &&
		c.Func.Type.Results.NumFields() == 0 {
		m.into = true
	}
	return m
}

// isReference reports whether copies of a value of the underlying type share data and may be nil.
func isReference(t loader.Type) bool {
	switch t.(type) {
	case *loader.Pointer, *loader.Slice, *loader.Map:
		return true
	}
	return false
}

// flat reports whether an assignment copies a value completely.
func flat(t loader.Type) bool {
	switch u := t.Underlying().(type) {
	case *loader.Basic:
		return u.Name != "error"
	case *loader.Array:
		return flat(u.Elem)
	case *loader.Struct:
		// First check the fields whose types need not be resolved.
		for _, f := range u.Fields {
			if _, named := f.Type().(*loader.Named); !named && !flat(f.Type()) {
				return false
			}
		}
		for _, f := range u.Fields {
			if _, named := f.Type().(*loader.Named); named && !flat(f.Type()) {
				return false
			}
		}
		return true
	}
	return false
}

// callable reports whether values of a type are copied by its methods: the type must be named and
// not generic, and a type of this package must have methods or get them. Code that copies values of
// other types is generated in place.
func (g *generator) callable(t loader.Type) bool {
	n, ok := t.(*loader.Named)
	if !ok || manual(n).any() {
		return ok
	}
	if len(n.Args) > 0 || n.Decl.Alias {
		return false
	}
	return n.Decl.Pkg != g.pkg || g.expected(n) || g.declares(n, "DeepCopyInto")
}

// copyIsPointer reports whether the DeepCopy method of t, existing or to be generated, returns a
// pointer.
func copyIsPointer(t loader.Type, m methods) bool {
	if m.copy {
		return m.copyPtr
	}
	u := t.Underlying()
	if p, ok := u.(*loader.Pointer); ok {
		return copyIsPointer(p.Elem, methods{})
	}
	return !isReference(u)
}

// into generates statements that copy *in to *out, two non-nil pointers to t. name is the name of t
// in this file.
func (g *generator) into(t loader.Type, name string) {
	if n, ok := t.(*loader.Named); ok && isReference(t.Underlying()) {
		if slices.ContainsFunc(g.references, func(outer *loader.Named) bool { return outer.String() == n.String() }) {
			g.require(t, "DeepCopy")
			g.linef("*out = (*in).DeepCopy()")
			return
		}
		g.references = append(g.references, n)
		defer func() { g.references = g.references[:len(g.references)-1] }()
	}
	switch u := t.Underlying().(type) {
	case *loader.Basic:
		if u.Name == "error" {
			g.fail(t, "it is an interface")
			return
		}
		g.linef("*out = *in")
	case *loader.Map:
		g.intoMap(u, name)
	case *loader.Slice:
		g.intoSlice(u, name)
	case *loader.Array:
		g.intoArray(u)
	case *loader.Struct:
		g.intoStruct(t, u)
	case *loader.Pointer:
		g.intoPointer(t, u)
	case *loader.Interface:
		g.fail(t, "it is an interface; use a concrete type, or runtime.RawExtension for any object")
	case *loader.Param:
		g.fail(t, "it is a type parameter")
	default:
		g.fail(t, u.String())
	}
}

func (g *generator) intoStruct(t loader.Type, st *loader.Struct) {
	if n, ok := t.(*loader.Named); ok && n.Decl != g.owner {
		for _, outer := range g.inline {
			if outer.String() == n.String() {
				g.fail(t, "the type "+n.Decl.Name+
					", which has no DeepCopyInto method, contains itself; write the method")
				return
			}
		}
		g.inline = append(g.inline, n)
		defer func() { g.inline = g.inline[:len(g.inline)-1] }()
	}
	g.linef("*out = *in")
	outer := g.field
	for _, f := range st.Fields {
		if f.Name == "_" {
			continue
		}
		here := slices.Contains(g.pkg.Files, f.File)
		if !here && !ast.IsExported(f.Name) {
			if !flat(f.Type()) {
				g.fail(t, fmt.Sprintf("%s has the field %s, which this package cannot copy", named(t), f.Name))
			}
			continue
		}
		if here && (len(g.inline) == 0 || outer == nil) {
			g.field = f
		}
		g.structField(f)
	}
	g.field = outer
}

// structField generates statements that copy the data of a field that `*out = *in` shares.
func (g *generator) structField(f *loader.Field) {
	t, name := f.Type(), f.Name
	u := t.Underlying()
	_, isPtr := u.(*loader.Pointer)
	if m := manual(t); m.any() && !isPtr {
		if copyIsPointer(t, m) {
			g.require(t, "DeepCopyInto")
			g.linef("in.%s.DeepCopyInto(&out.%s)", name, name)
		} else {
			g.require(t, "DeepCopy")
			g.linef("out.%s = in.%s.DeepCopy()", name, name)
		}
		return
	}
	switch {
	case isReference(u):
		g.linef("if in.%s != nil {\nin, out := &in.%s, &out.%s", name, name, name)
		g.into(t, g.syntax(t))
		g.linef("}")
	case flat(t):
		if _, isStruct := u.(*loader.Struct); isStruct {
			g.linef("out.%s = in.%s", name, name)
		}
	case g.callable(t) && isStruct(u):
		g.require(t, "DeepCopyInto")
		g.linef("in.%s.DeepCopyInto(&out.%s)", name, name)
	default:
		g.linef("{\nin, out := &in.%s, &out.%s", name, name)
		g.into(t, "")
		g.linef("}")
	}
}

func isStruct(u loader.Type) bool {
	_, ok := u.(*loader.Struct)
	return ok
}

func (g *generator) intoSlice(s *loader.Slice, name string) {
	g.linef("*out = make(%s, len(*in))", name)
	_, elemIsPtr := s.Elem.Underlying().(*loader.Pointer)
	switch {
	case !elemIsPtr && manual(s.Elem).any():
		g.require(s.Elem, "DeepCopyInto")
		g.linef("for i := range *in {\n(*in)[i].DeepCopyInto(&(*out)[i])\n}")
	case flat(s.Elem):
		g.linef("copy(*out, *in)")
	default:
		g.linef("for i := range *in {")
		g.element(s.Elem)
		g.linef("}")
	}
}

func (g *generator) intoArray(a *loader.Array) {
	g.linef("*out = *in")
	if flat(a.Elem) {
		return
	}
	g.linef("for i := range *in {")
	g.element(a.Elem)
	g.linef("}")
}

// element generates statements that copy (*in)[i], which is not flat, to (*out)[i].
func (g *generator) element(elem loader.Type) {
	u := elem.Underlying()
	switch {
	case isReference(u):
		g.linef("if (*in)[i] != nil {\nin, out := &(*in)[i], &(*out)[i]")
		g.into(elem, g.syntax(elem))
		g.linef("}")
	case g.callable(elem) && isStruct(u):
		g.require(elem, "DeepCopyInto")
		g.linef("(*in)[i].DeepCopyInto(&(*out)[i])")
	default:
		g.linef("{\nin, out := &(*in)[i], &(*out)[i]")
		g.into(elem, "")
		g.linef("}")
	}
}

func (g *generator) intoMap(m *loader.Map, name string) {
	if !flat(m.Key) {
		g.fail(m.Key, "a map's key must hold no pointers")
		return
	}
	g.linef("*out = make(%s, len(*in))", name)
	g.linef("for key, val := range *in {")
	defer g.linef("}")
	u := m.Elem.Underlying()
	ptr, elemIsPtr := m.Elem.(*loader.Pointer)
	have := manual(m.Elem)
	switch {
	case have.any() && !elemIsPtr:
		g.require(m.Elem, "DeepCopy")
		if copyIsPointer(m.Elem, have) {
			g.linef("(*out)[key] = *val.DeepCopy()")
		} else {
			g.linef("(*out)[key] = val.DeepCopy()")
		}
	case elemIsPtr && have.into && !have.copy: // the generated DeepCopy accepts nil
		g.require(ptr.Elem, "DeepCopy")
		g.linef("(*out)[key] = val.DeepCopy()")
	case flat(m.Elem):
		g.linef("(*out)[key] = val")
	case isReference(u):
		g.linef("var outVal %s\nif val == nil {\n(*out)[key] = nil\n} else {\ninVal := (*in)[key]\nin, out := &inVal, &outVal", g.syntax(u))
		g.into(m.Elem, g.syntax(m.Elem))
		g.linef("}\n(*out)[key] = outVal")
	case g.callable(m.Elem) && isStruct(u):
		g.require(m.Elem, "DeepCopy")
		g.linef("(*out)[key] = *val.DeepCopy()")
	default:
		g.linef("var outVal %s\n{\nin, out := &val, &outVal", g.syntax(m.Elem))
		g.into(m.Elem, "")
		g.linef("}\n(*out)[key] = outVal")
	}
}

func (g *generator) intoPointer(t loader.Type, p *loader.Pointer) {
	from := "(*in)"
	if _, named := t.(*loader.Named); named { // a declared pointer type has no methods
		from = "(**in)"
	}
	u := p.Elem.Underlying()
	_, nested := u.(*loader.Pointer) // manual finds the methods of the type that it points to
	have := manual(p.Elem)
	switch {
	case have.any() && !nested:
		g.require(p.Elem, "DeepCopy")
		if copyIsPointer(p.Elem, have) {
			g.linef("*out = %s.DeepCopy()", from)
		} else {
			g.linef("x := %s.DeepCopy()\n*out = &x", from)
		}
	case flat(p.Elem):
		g.linef("*out = new(%s)\n**out = **in", g.syntax(p.Elem))
	case isReference(u):
		name := g.syntax(p.Elem)
		g.linef("*out = new(%s)\nif **in != nil {\nin, out := *in, *out", name)
		g.into(p.Elem, name)
		g.linef("}")
	case g.callable(p.Elem) && isStruct(u):
		g.require(p.Elem, "DeepCopyInto")
		g.linef("*out = new(%s)\n%s.DeepCopyInto(*out)", g.syntax(p.Elem), from)
	default:
		g.linef("*out = new(%s)\n{\nin, out := *in, *out", g.syntax(p.Elem))
		g.into(p.Elem, "")
		g.linef("}")
	}
}
