package loader

import (
	"fmt"
	"go/ast"
	"go/token"
	"strconv"
)

// Package is a parsed package with an index of its declarations.
type Package struct {
	Path  string // import path
	Name  string
	Dir   string
	Files []*File

	ws       *Workspace
	decls    map[string]*Decl
	order    []*Decl
	methods  map[string][]*Method
	consts   []*Const
	names    map[string]bool    // of constants, variables and functions at the top level
	initials map[string]initial // of constants, by name
	funcs    []*Func
}

// Func is a function that is not a method.
type Func struct {
	Pkg  *Package
	File *File
	Decl *ast.FuncDecl
}

// Name returns the name of the function.
func (f *Func) Name() string { return f.Decl.Name.Name }

// Pos returns the position of the name.
func (f *Func) Pos() token.Position { return f.File.Position(f.Decl.Name.Pos()) }

// Decl is the declaration of one named type.
type Decl struct {
	Pkg  *Package
	File *File
	Name string
	// the enclosing declaration; it has the doc comment if it is not in parentheses
	Gen   *ast.GenDecl
	Spec  *ast.TypeSpec
	Alias bool

	params []*Param
	typ    *Named
}

// Method is a method that is declared on a type of the package, not a promoted one.
type Method struct {
	File    *File
	Name    string
	Pointer bool // the receiver is a pointer
	Func    *ast.FuncDecl
}

// Const is a constant with a type of the same package and a literal value.
type Const struct {
	Name  string
	Type  string // the name of its type
	Value string // the literal as written
	Kind  token.Token
	Doc   *ast.CommentGroup
}

// Pos returns the position of the type's name.
func (d *Decl) Pos() token.Position { return d.File.Position(d.Spec.Name.Pos()) }

// Types returns the type declarations in source order, with files sorted by name.
func (p *Package) Types() []*Decl { return p.order }

// Type returns the declaration of a type, or nil.
func (p *Package) Type(name string) *Decl { return p.decls[name] }

// Methods returns the methods that are declared on a type.
func (p *Package) Methods(name string) []*Method { return p.methods[name] }

// Consts returns the typed literal constants in source order.
func (p *Package) Consts() []*Const { return p.consts }

// Declares reports whether a parsed file declares a type, constant, variable or function with a
// name at the top level. In packages that Open read, all files are parsed; in other packages, only
// files that declare types are.
func (p *Package) Declares(name string) bool { return p.names[name] || p.decls[name] != nil }

// Funcs returns the functions in source order.
func (p *Package) Funcs() []*Func { return p.funcs }

// newPackage indexes the files of a package.
func newPackage(ws *Workspace, path, dir string, files []*File) (*Package, error) {
	p := &Package{Path: path, Dir: dir, Files: files, ws: ws, decls: map[string]*Decl{},
		methods: map[string][]*Method{}, names: map[string]bool{}, initials: map[string]initial{}}
	for _, f := range files {
		name := f.Syntax.Name.Name
		if p.Name == "" {
			p.Name = name
		}
		if p.Name != name {
			return nil, Errorf(f.Position(f.Syntax.Name.Pos()), "package %s, but other files here say package %s", name,
				p.Name)
		}
		for _, d := range f.Syntax.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				if err := p.indexGen(f, d); err != nil {
					return nil, err
				}
			case *ast.FuncDecl:
				p.indexFunc(f, d)
			}
		}
	}
	return p, nil
}

func (p *Package) indexGen(f *File, gen *ast.GenDecl) error {
	if gen.Tok == token.CONST {
		p.indexConstants(f, gen)
	}
	for _, spec := range gen.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			d := &Decl{Pkg: p, File: f, Name: spec.Name.Name, Gen: gen, Spec: spec, Alias: spec.Assign.IsValid()}
			if old := p.decls[d.Name]; old != nil && d.Name != "_" {
				return Errorf(d.Pos(), "%s redeclared; it is declared at %s", d.Name, old.Pos())
			}
			if spec.TypeParams != nil {
				for _, field := range spec.TypeParams.List {
					for _, name := range field.Names {
						d.params = append(d.params, &Param{Name: name.Name})
					}
				}
			}
			p.decls[d.Name] = d
			p.order = append(p.order, d)
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				p.names[name.Name] = true
			}
			typ, ok := spec.Type.(*ast.Ident)
			if gen.Tok != token.CONST || !ok {
				continue
			}
			for i, name := range spec.Names {
				if i < len(spec.Values) {
					if lit, ok := spec.Values[i].(*ast.BasicLit); ok {
						doc := spec.Doc
						if doc == nil && !gen.Lparen.IsValid() {
							doc = gen.Doc
						}
						p.consts = append(p.consts,
							&Const{Name: name.Name, Type: typ.Name, Value: lit.Value, Kind: lit.Kind, Doc: doc})
					}
				}
			}
		}
	}
	return nil
}

func (p *Package) indexFunc(f *File, fn *ast.FuncDecl) {
	if fn.Recv == nil {
		p.names[fn.Name.Name] = true
		p.funcs = append(p.funcs, &Func{Pkg: p, File: f, Decl: fn})
	}
	if fn.Recv == nil || len(fn.Recv.List) != 1 {
		return
	}
	m := &Method{File: f, Name: fn.Name.Name, Func: fn}
	recv := fn.Recv.List[0].Type
	if star, ok := recv.(*ast.StarExpr); ok {
		m.Pointer, recv = true, star.X
	}
	switch r := recv.(type) { // generic receivers name their parameters
	case *ast.IndexExpr:
		recv = r.X
	case *ast.IndexListExpr:
		recv = r.X
	}
	if id, ok := recv.(*ast.Ident); ok {
		p.methods[id.Name] = append(p.methods[id.Name], m)
	}
}

// imported returns the package that an identifier names in a file. The name is in the package
// clause, so the package must be read to know it; imported first tries imports whose path suggests
// the name.
func (p *Package) imported(f *File, name string) (*Package, error) {
	var likely, others []string
	for _, spec := range f.Syntax.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		if spec.Name != nil {
			if spec.Name.Name == name {
				return p.ws.Import(path)
			}
			continue
		}
		if suggests(path, name) {
			likely = append(likely, path)
		} else {
			others = append(others, path)
		}
	}
	var failed error
	for _, path := range append(likely, others...) {
		pkg, err := p.ws.Import(path)
		if err != nil {
			if failed == nil {
				failed = err
			}
			continue
		}
		if pkg.Name == name {
			return pkg, nil
		}
	}
	if failed != nil {
		return nil, failed
	}
	return nil, fmt.Errorf("no import is named %s", name)
}

// Params returns the types of a function's parameters.
func (p *Package) Params(f *Func) []Type {
	return scope{pkg: p, file: f.File}.list(f.Decl.Type.Params)
}

// Signature returns the types of a method's parameters and results. m must be a method of a type of
// p. The parameters of a generic receiver are Invalid.
func (p *Package) Signature(m *Method) (params, results []Type) {
	s := scope{pkg: p, file: m.File}
	return s.list(m.Func.Type.Params), s.list(m.Func.Type.Results)
}

// list returns the type of each name in a list of parameters or results.
func (s scope) list(fields *ast.FieldList) []Type {
	if fields == nil {
		return nil
	}
	var types []Type
	for _, field := range fields.List {
		for range max(1, len(field.Names)) {
			types = append(types, s.eval(field.Type))
		}
	}
	return types
}
