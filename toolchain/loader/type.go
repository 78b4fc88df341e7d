package loader

import (
	"go/ast"
	"go/token"
	"reflect"
	"strings"
)

// Type is the type of an expression. Its concrete types are those of this file.
type Type interface {
	// Underlying is the type that a name stands for in the end: never a *Named.
	Underlying() Type
	// String is Go syntax with import paths for packages, for messages and for comparing.
	String() string
}

// Basic is one of Go's predeclared types, by the name it is written with: bool, string, a number, byte, rune, error.
type Basic struct{ Name string }

// IsByte says that the type is byte, under either of its names.
func (t *Basic) IsByte() bool { return t.Name == "byte" || t.Name == "uint8" }

// Named is a declared type, instantiated if it is generic. An alias of an unnamed type is a Named whose Decl.Alias is true; an alias of a
// named type is that type.
type Named struct {
	Decl *Decl
	Args []Type

	under     Type
	resolving bool
}

// Pointer is *Elem.
type Pointer struct{ Elem Type }

// Slice is []Elem.
type Slice struct{ Elem Type }

// Array is [Len]Elem; Len is as written.
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

// Opaque is a type that no API can hold (a channel, a function).
type Opaque struct{ What string }

// Param is a type parameter inside its generic declaration.
type Param struct{ Name string }

// Invalid is an expression that could not be resolved.
type Invalid struct{ Err error }

// Field is one name of a struct's field list.
type Field struct {
	Name     string // the type's name for embedded fields
	Embedded bool
	Tag      reflect.StructTag
	Syntax   *ast.Field
	File     *File

	scope scope
	typ   Type
}

// Type is the field's type, resolved on first use.
func (f *Field) Type() Type {
	if f.typ == nil {
		f.typ = f.scope.eval(f.Syntax.Type)
	}
	return f.typ
}

// Pos is where the field stands.
func (f *Field) Pos() token.Position { return f.File.Position(f.Syntax.Pos()) }

// Type is the declared type; a generic one with its own parameters for arguments.
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

// Generic says that the type has parameters.
func (d *Decl) Generic() bool { return len(d.params) > 0 }

// Underlying resolves the declaration, once.
func (n *Named) Underlying() Type {
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

// Source is the right-hand side of the declaration, which may be a name itself.
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

// Is says that the type is the named one of a package.
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
