package loader

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"reflect"
	"strconv"
)

// scope is the scope in which the names of an expression are resolved.
type scope struct {
	pkg  *Package
	file *File
	args map[string]Type // of the enclosing generic declaration
}

func (s scope) invalid(pos token.Pos, format string, args ...any) *Invalid {
	return &Invalid{Err: Errorf(s.file.Position(pos), format, args...)}
}

// eval returns the type that an expression denotes.
func (s scope) eval(expr ast.Expr) Type {
	switch e := expr.(type) {
	case *ast.ParenExpr:
		return s.eval(e.X)
	case *ast.Ident:
		return s.ident(e)
	case *ast.SelectorExpr:
		return s.selector(e, nil)
	case *ast.IndexExpr:
		return s.instance(e.X, []ast.Expr{e.Index})
	case *ast.IndexListExpr:
		return s.instance(e.X, e.Indices)
	case *ast.StarExpr:
		return &Pointer{Elem: s.eval(e.X)}
	case *ast.ArrayType:
		if e.Len == nil {
			return &Slice{Elem: s.eval(e.Elt)}
		}
		return &Array{Len: s.length(e.Len), Elem: s.eval(e.Elt)}
	case *ast.MapType:
		return &Map{Key: s.eval(e.Key), Elem: s.eval(e.Value)}
	case *ast.StructType:
		return s.structType(e)
	case *ast.InterfaceType:
		return &Interface{Syntax: e}
	case *ast.ChanType:
		return &Opaque{What: "a channel"}
	case *ast.FuncType:
		return &Opaque{What: "a function"}
	}
	return s.invalid(expr.Pos(), "%s is not a type", types.ExprString(expr))
}

func (s scope) ident(id *ast.Ident) Type {
	if t, ok := s.args[id.Name]; ok {
		return t
	}
	if d := s.pkg.decls[id.Name]; d != nil {
		return s.named(id, d, nil)
	}
	if obj, ok := types.Universe.Lookup(id.Name).(*types.TypeName); ok {
		if obj.Name() == "any" {
			return &Interface{}
		}
		return &Basic{Name: obj.Name()}
	}
	if pkg := s.dotImported(func(p *Package) bool { return p.decls[id.Name] != nil }); pkg != nil {
		return s.named(id, pkg.decls[id.Name], nil)
	}
	return s.invalid(id.Pos(), "unknown type %s", id.Name)
}

// dotImported returns the package that the file imports with a dot and that declares a name, or
// nil.
func (s scope) dotImported(declares func(*Package) bool) *Package {
	for _, spec := range s.file.Syntax.Imports {
		if spec.Name == nil || spec.Name.Name != "." {
			continue
		}
		if path, err := strconv.Unquote(spec.Path.Value); err == nil {
			if pkg, err := s.pkg.ws.Import(path); err == nil && declares(pkg) {
				return pkg
			}
		}
	}
	return nil
}

func (s scope) selector(e *ast.SelectorExpr, args []Type) Type {
	x, ok := e.X.(*ast.Ident)
	if !ok {
		return s.invalid(e.Pos(), "%s is not a type", types.ExprString(e))
	}
	pkg, err := s.pkg.imported(s.file, x.Name)
	if err != nil {
		return s.invalid(e.Pos(), "unknown type %s.%s: %v", x.Name, e.Sel.Name, err)
	}
	d := pkg.decls[e.Sel.Name]
	if d == nil {
		return s.invalid(e.Pos(), "unknown type %s.%s: package %s does not declare it", x.Name, e.Sel.Name, pkg.Path)
	}
	return s.named(e, d, args)
}

func (s scope) instance(x ast.Expr, indices []ast.Expr) Type {
	args := make([]Type, len(indices))
	for i, ix := range indices {
		args[i] = s.eval(ix)
	}
	switch x := x.(type) {
	case *ast.Ident:
		pkg := s.pkg
		declares := func(p *Package) bool { return p.decls[x.Name] != nil }
		if !declares(pkg) {
			pkg = s.dotImported(declares)
		}
		if pkg != nil {
			return s.named(x, pkg.decls[x.Name], args)
		}
	case *ast.SelectorExpr:
		return s.selector(x, args)
	}
	return s.invalid(x.Pos(), "unknown generic type %s", types.ExprString(x))
}

// named returns the type of a declaration with type arguments. It resolves aliases of named types.
func (s scope) named(at ast.Expr, d *Decl, args []Type) Type {
	if len(args) != len(d.params) {
		return s.invalid(at.Pos(), "%s takes %d type arguments, not %d", d.Name, len(d.params), len(args))
	}
	if deep(args) > maxInstance {
		return s.invalid(at.Pos(), "%s is instantiated with itself without end", d.Name)
	}
	n := d.Type()
	if len(args) > 0 {
		n = &Named{Decl: d, Args: args}
	}
	if !d.Alias {
		return n
	}
	if n.resolving {
		return &Invalid{Err: Errorf(d.Pos(), "invalid recursive type %s", d.Name)}
	}
	n.resolving = true
	defer func() { n.resolving = false }()
	if target, ok := n.Source().(*Named); ok {
		return &Named{Decl: target.Decl, Args: target.Args, Via: n, origin: cmp.Or(target.origin, target)}
	}
	return n
}

func (s scope) structType(e *ast.StructType) *Struct {
	st := &Struct{Syntax: e}
	for _, f := range e.Fields.List {
		field := Field{Syntax: f, File: s.file, scope: s}
		if f.Tag != nil {
			if tag, err := strconv.Unquote(f.Tag.Value); err == nil {
				field.Tag = reflect.StructTag(tag)
			}
		}
		if len(f.Names) == 0 {
			field.Name, field.Embedded = embeddedName(f.Type), true
			st.Fields = append(st.Fields, &field)
			continue
		}
		for _, name := range f.Names {
			one := field
			one.Name = name.Name
			st.Fields = append(st.Fields, &one)
		}
	}
	return st
}

func embeddedName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return embeddedName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.IndexExpr:
		return embeddedName(e.X)
	case *ast.IndexListExpr:
		return embeddedName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// maxInstance is the maximum nesting of type arguments.
const maxInstance = 16

// deep returns the nesting of type arguments.
func deep(args []Type) int {
	most := 0
	for _, t := range args {
		for inside := true; inside; {
			switch u := t.(type) {
			case *Pointer:
				t = u.Elem
			case *Slice:
				t = u.Elem
			case *Array:
				t = u.Elem
			case *Map:
				t = u.Elem
			default:
				inside = false
			}
		}
		if n, ok := t.(*Named); ok && len(n.Args) > 0 {
			most = max(most, deep(n.Args))
		}
	}
	if len(args) == 0 {
		return 0
	}
	return most + 1
}
