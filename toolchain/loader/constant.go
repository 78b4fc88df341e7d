package loader

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
)

// initial is the expression of a constant's value.
type initial struct {
	file *File
	expr ast.Expr
	iota int
}

// indexConstants records the expressions of the constants in a declaration.
func (p *Package) indexConstants(f *File, gen *ast.GenDecl) {
	var values []ast.Expr
	for i, spec := range gen.Specs {
		spec, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		if len(spec.Values) > 0 {
			values = spec.Values // a constant without a value repeats the previous expressions
		}
		for j, name := range spec.Names {
			if j < len(values) {
				p.initials[name.Name] = initial{file: f, expr: values[j], iota: i}
			}
		}
	}
}

// length returns the length of an array as a number. It returns the expression as written if it is
// not an arithmetic expression of integer constants in packages that the workspace can read.
func (s scope) length(expr ast.Expr) string {
	if v := s.integer(expr, 0, 0); v != nil {
		return v.ExactString()
	}
	return types.ExprString(expr)
}

// maxConstants limits the nesting of constants.
const maxConstants = 20

// integer returns the value of an expression, or nil. iota is that of the declaration.
func (s scope) integer(expr ast.Expr, iota, depth int) constant.Value {
	if depth > maxConstants {
		return nil
	}
	named := func(pkg *Package, name string) constant.Value {
		in, ok := pkg.initials[name]
		if !ok {
			return nil
		}
		return scope{pkg: pkg, file: in.file}.integer(in.expr, in.iota, depth+1)
	}
	switch e := expr.(type) {
	case *ast.ParenExpr:
		return s.integer(e.X, iota, depth)
	case *ast.BasicLit:
		if v := constant.MakeFromLiteral(e.Value, e.Kind, 0); v.Kind() == constant.Int {
			return v
		}
	case *ast.Ident:
		if e.Name == "iota" {
			return constant.MakeInt64(int64(iota))
		}
		has := func(p *Package) bool { _, ok := p.initials[e.Name]; return ok }
		if has(s.pkg) {
			return named(s.pkg, e.Name)
		}
		if pkg := s.dotImported(has); pkg != nil {
			return named(pkg, e.Name)
		}
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			if pkg, err := s.pkg.imported(s.file, x.Name); err == nil {
				return named(pkg, e.Sel.Name)
			}
		}
	case *ast.UnaryExpr:
		if x := s.integer(e.X, iota, depth); x != nil && (e.Op == token.ADD || e.Op == token.SUB) {
			return constant.UnaryOp(e.Op, x, 0)
		}
	case *ast.BinaryExpr:
		x, y := s.integer(e.X, iota, depth), s.integer(e.Y, iota, depth)
		if x == nil || y == nil {
			return nil
		}
		switch e.Op {
		case token.ADD, token.SUB, token.MUL, token.AND, token.OR, token.XOR:
			return constant.BinaryOp(x, e.Op, y)
		case token.QUO:
			if constant.Sign(y) != 0 {
				return constant.BinaryOp(x, token.QUO_ASSIGN, y) // of integers
			}
		case token.SHL, token.SHR:
			if n, ok := constant.Uint64Val(y); ok && n < 64 {
				return constant.Shift(x, e.Op, uint(n))
			}
		}
	}
	return nil
}
