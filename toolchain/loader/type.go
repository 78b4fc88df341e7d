package loader

import (
	"go/ast"
	"go/token"
	"reflect"
	"strings"
)

// Type is the type of an expression. Its concrete types are declared in this file.
type Type interface {
	// Underlying returns the underlying type, which is never a *Named.
	Underlying() Type
	// String returns the type in Go syntax with import paths as package names, for messages and
	// comparisons.
	String() string
}

// Basic is a predeclared type, by the name in the source: bool, string, a number type, byte, rune
// or error.
type Basic struct{ Name string }

// IsByte reports whether the type is byte or its alias uint8.
func (t *Basic) IsByte() bool { return t.Name == "byte" || t.Name == "uint8" }

// Named is a declared type, instantiated if it is generic. An alias of an unnamed type is a Named
// whose Decl.Alias is true; an alias of a named type is that type, with Via.
type Named struct {
	Decl *Decl
	Args []Type
	// Via is the alias that the source names instead of this type, or nil. It does not change the
	// identity of the type: String ignores it.
	Via *Named

	origin    *Named // the same type without Via
	under     Type
	resolving bool
}

// Pointer is *Elem.
type Pointer struct{ Elem Type }

// Deref returns the type that a pointer points to, and other types as they are.
func Deref(t Type) Type {
	if p, ok := t.(*Pointer); ok {
		return p.Elem
	}
	return t
}

// Slice is []Elem.
type Slice struct{ Elem Type }

// Array is [Len]Elem. Len is a number, or the expression as written if it is not constant
// arithmetic.
type Array struct {
	Len  string
	Elem Type
}

// Map is map[Key]Elem.
type Map struct{ Key, Elem Type }

// Struct is a struct type.
type Struct struct {
	Syntax *ast.StructType
	Fields []*Field
}

// Interface is any interface type.
type Interface struct{ Syntax *ast.InterfaceType }

// Opaque is a type that no API can contain: a channel or a function.
type Opaque struct{ What string }

// Param is a type parameter within its generic declaration.
type Param struct{ Name string }

// Invalid is an expression that could not be resolved.
type Invalid struct{ Err error }

// Field is one field of a struct.
type Field struct {
	Name     string // for an embedded field, the name of its type
	Embedded bool
	Tag      reflect.StructTag
	Syntax   *ast.Field
	File     *File

	scope scope
	typ   Type
}

// Type returns the type of the field. It resolves the type on first use.
func (f *Field) Type() Type {
	if f.typ == nil {
		f.typ = f.scope.eval(f.Syntax.Type)
	}
	return f.typ
}

// Pos returns the position of the field.
func (f *Field) Pos() token.Position { return f.File.Position(f.Syntax.Pos()) }

// Type returns the declared type. The type arguments of a generic type are its own parameters.
func (d *Decl) Type() *Named {
	if d.typ == nil {
		args := make([]Type, len(d.params))
		for i, p := range d.params {
			args[i] = p
		}
		d.typ = &Named{Decl: d, Args: args}
	}
	return d.typ
}

// Origin returns the declaration of the type's literal: that of this type or, for a type that is
// declared as another named type, that of the other. The literal's comments are in its package.
func (d *Decl) Origin() *Decl {
	if _, invalid := d.Type().Underlying().(*Invalid); invalid {
		return d // perhaps declared as itself
	}
	for !d.Generic() {
		source, ok := d.Type().Source().(*Named)
		if !ok {
			break
		}
		d = source.Decl
	}
	return d
}

// Generic reports whether the type has type parameters.
func (d *Decl) Generic() bool { return len(d.params) > 0 }

// Underlying resolves the declaration on first use.
func (n *Named) Underlying() Type {
	if n.origin != nil {
		return n.origin.Underlying()
	}
	if n.under != nil {
		return n.under
	}
	if n.resolving {
		return &Invalid{Err: Errorf(n.Decl.Pos(), "invalid recursive type %s", n.Decl.Name)}
	}
	n.resolving = true
	defer func() { n.resolving = false }()
	n.under = n.Source().Underlying()
	return n.under
}

// Source returns the right-hand side of the declaration, which may also be a Named.
func (n *Named) Source() Type {
	s := scope{pkg: n.Decl.Pkg, file: n.Decl.File}
	for i, p := range n.Decl.params {
		if s.args == nil {
			s.args = map[string]Type{}
		}
		s.args[p.Name] = n.Args[i]
	}
	return s.eval(n.Decl.Spec.Type)
}

// Is reports whether the type has an import path and name.
func (n *Named) Is(path, name string) bool { return n.Decl.Name == name && n.Decl.Pkg.Path == path }

func (t *Basic) Underlying() Type     { return t }
func (t *Pointer) Underlying() Type   { return t }
func (t *Slice) Underlying() Type     { return t }
func (t *Array) Underlying() Type     { return t }
func (t *Map) Underlying() Type       { return t }
func (t *Struct) Underlying() Type    { return t }
func (t *Interface) Underlying() Type { return t }
func (t *Opaque) Underlying() Type    { return t }
func (t *Param) Underlying() Type     { return t }
func (t *Invalid) Underlying() Type   { return t }

func (t *Basic) String() string     { return t.Name }
func (t *Pointer) String() string   { return "*" + t.Elem.String() }
func (t *Slice) String() string     { return "[]" + t.Elem.String() }
func (t *Array) String() string     { return "[" + t.Len + "]" + t.Elem.String() }
func (t *Map) String() string       { return "map[" + t.Key.String() + "]" + t.Elem.String() }
func (t *Struct) String() string    { return "struct{…}" }
func (t *Interface) String() string { return "interface{…}" }
func (t *Opaque) String() string    { return t.What }
func (t *Param) String() string     { return t.Name }
func (t *Invalid) String() string   { return "invalid type" }

func (n *Named) String() string {
	s := n.Decl.Pkg.Path + "." + n.Decl.Name
	if len(n.Args) == 0 {
		return s
	}
	args := make([]string, len(n.Args))
	for i, a := range n.Args {
		args[i] = a.String()
	}
	return s + "[" + strings.Join(args, ", ") + "]"
}
