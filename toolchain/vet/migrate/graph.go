package migrate

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/packages"
)

// declaration is a top-level declaration of a package.
type declaration struct {
	node ast.Node
	test bool // in a test file
	// defines are the functions, variables, constants and types that it declares.
	defines []types.Object
	// method is the receiver's type; nil if the declaration is not a method.
	method *types.TypeName
	// uses are the declarations of the package that it refers to.
	uses []*declaration
	// types are the types of the package that it refers to.
	types map[*types.TypeName]bool
	// parts are the reconcilers that it is a part of.
	parts []*reconciler
}

// declarations returns the declarations in some files of a package, with their references.
func declarations(p *packages.Package, files []*ast.File) []*declaration {
	var all []*declaration
	by := map[types.Object]*declaration{}
	add := func(file *ast.File, node ast.Node, names ...*ast.Ident) *declaration {
		d := &declaration{node: node, test: strings.HasSuffix(p.Fset.Position(file.Package).Filename, "_test.go"),
			types: map[*types.TypeName]bool{}}
		for _, name := range names {
			if obj := p.TypesInfo.Defs[name]; obj != nil {
				d.defines, by[obj] = append(d.defines, obj), d
			}
		}
		all = append(all, d)
		return d
	}
	for _, file := range files {
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				d := add(file, decl, decl.Name)
				if fn, ok := p.TypesInfo.Defs[decl.Name].(*types.Func); ok {
					d.method = receiverOf(fn)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					switch spec := spec.(type) {
					case *ast.ValueSpec:
						add(file, spec, spec.Names...)
					case *ast.TypeSpec:
						add(file, spec, spec.Name)
					}
				}
			}
		}
	}
	for _, d := range all {
		ast.Inspect(d.node, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			obj := p.TypesInfo.Uses[id]
			if fn, ok := obj.(*types.Func); ok {
				obj = fn.Origin()
			}
			if name, ok := obj.(*types.TypeName); ok {
				d.types[name] = true
			} else if to := by[obj]; to != nil && to != d {
				d.uses = append(d.uses, to)
			}
			return true
		})
	}
	return all
}

// divide finds the reconcilers that each declaration is a part of. A reconciler consists of its
// methods and of the declarations to which they refer, except for methods of other reconcilers. A
// function to which no method refers, such as one that sets up a reconciler, is a part of the
// reconcilers whose types it names.
func divide(all []*declaration, reconcilers []*reconciler) {
	typed := map[*types.TypeName]bool{}
	for _, r := range reconcilers {
		typed[r.typ] = true
	}
	for _, r := range reconcilers {
		for _, d := range all {
			if d.method == r.typ {
				d.join(r, typed)
			}
		}
	}
	for _, d := range all {
		if len(d.parts) > 0 || d.test {
			continue
		}
		if _, ok := d.node.(*ast.FuncDecl); !ok {
			continue
		}
		for _, r := range reconcilers {
			if d.types[r.typ] {
				d.join(r, typed)
			}
		}
	}
}

// join makes a declaration and those to which it refers parts of a reconciler.
func (d *declaration) join(r *reconciler, typed map[*types.TypeName]bool) {
	if d.test || typed[d.method] && d.method != r.typ {
		return
	}
	for _, part := range d.parts {
		if part == r {
			return
		}
	}
	d.parts = append(d.parts, r)
	for _, to := range d.uses {
		to.join(r, typed)
	}
}
