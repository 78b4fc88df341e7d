package migrate

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
	"golang.org/x/tools/go/packages"
)

// wantedRuntime is the version of controller-runtime that package adapter requires.
const wantedRuntime = "v0.25.0"

// reader collects the findings about one project.
type reader struct {
	dir    string
	fset   *token.FileSet
	report *Report
	names  map[string]bool
	seen   map[string]bool // files, which can be in several packages because of tests
}

// Read type-checks the packages of the project in a directory, with their tests, and reports which
// changes a move needs. The project must compile, and must use controller-runtime.
func Read(ctx context.Context, dir string) (*Report, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	loaded, err := packages.Load(&packages.Config{
		Context: ctx, Dir: dir, Fset: fset, Tests: true,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedModule | packages.NeedTypes |
			packages.NeedSyntax | packages.NeedTypesInfo,
	}, "./...")
	if err != nil {
		return nil, fmt.Errorf("read project %s: %w", dir, err)
	}
	r := &reader{dir: dir, fset: fset, report: &Report{}, names: map[string]bool{}, seen: map[string]bool{}}
	var errs []error
	for _, p := range loaded {
		for _, e := range p.Errors {
			errs = append(errs, e)
		}
		if p.Module != nil && r.report.Module == "" {
			r.report.Module = p.Module.Path
		}
		r.runtimeOf(p)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("read project %s: it does not compile: %w", dir,
			errors.Join(errs[:min(len(errs), 5)]...))
	}
	for _, p := range loaded {
		r.read(p)
	}
	if r.report.Uses == 0 {
		return nil, fmt.Errorf("read project %s: it does not use %s", dir, runtimePath)
	}
	if v := r.report.Runtime; semver.IsValid(v) && semver.Compare(v, wantedRuntime) < 0 {
		r.report.Program = append(r.report.Program, Finding{
			Verdict: Change, File: "go.mod", Line: 1, Name: runtimePath + " " + v,
			Advice: "upgrade to v0.25 and Kubernetes' libraries to v0.37 first",
		})
	}
	r.report.Names = len(r.names)
	r.report.sort()
	return r.report, nil
}

// runtimeOf notes the version of controller-runtime that a package imports.
func (r *reader) runtimeOf(p *packages.Package) {
	for path, imported := range p.Imports {
		if isRuntime(path) && imported.Module != nil && r.report.Runtime == "" {
			r.report.Runtime = imported.Module.Version
		}
	}
}

func isRuntime(path string) bool {
	return path == runtimePath || strings.HasPrefix(path, runtimePath+"/")
}

func (r *reader) read(p *packages.Package) {
	if strings.HasSuffix(p.ID, ".test") { // generated
		return
	}
	var files []*ast.File
	for _, file := range p.Syntax {
		if name := r.fset.Position(file.Package).Filename; !r.seen[name] {
			r.seen[name] = true
			files = append(files, file)
		}
	}
	reconcilers := reconcilersIn(p, files)
	for _, each := range reconcilers {
		each.found.Name = p.Types.Name() + "." + each.found.Name
		each.found.File, each.found.Line = r.position(each.pos)
	}
	uses := r.report.Uses
	all := declarations(p, files)
	divide(all, reconcilers)
	for _, d := range all {
		f := &declarationReader{reader: r, info: p.TypesInfo, declaration: d, redundant: map[*ast.Ident]bool{}}
		ast.Inspect(d.node, f.visit)
	}
	for _, each := range reconcilers {
		r.report.Reconcilers = append(r.report.Reconcilers, *each.found)
	}
	if r.report.Uses > uses {
		r.report.Packages++
	}
}

func (r *reader) position(pos token.Pos) (file string, line int) {
	p := r.fset.Position(pos)
	if rel, err := filepath.Rel(r.dir, p.Filename); err == nil {
		p.Filename = filepath.ToSlash(rel)
	}
	return p.Filename, p.Line
}

// reconciler is a reconciler of a package.
type reconciler struct {
	found *Reconciler
	pos   token.Pos
	typ   *types.TypeName
}

// reconcilersIn finds the types for which the files declare a method Reconcile with
// controller-runtime's signature.
func reconcilersIn(p *packages.Package, files []*ast.File) []*reconciler {
	var all []*reconciler
	for _, file := range files {
		for _, decl := range file.Decls {
			method, ok := decl.(*ast.FuncDecl)
			if !ok || method.Recv == nil || method.Name.Name != "Reconcile" {
				continue
			}
			fn, ok := p.TypesInfo.Defs[method.Name].(*types.Func)
			if !ok || !returnsResult(fn) {
				continue
			}
			if typ := receiverOf(fn); typ != nil {
				all = append(all, &reconciler{found: &Reconciler{Name: typ.Name()}, pos: method.Pos(), typ: typ})
			}
		}
	}
	return all
}

// returnsResult reports whether a function returns controller-runtime's Result and an error.
func returnsResult(fn *types.Func) bool {
	results := fn.Signature().Results()
	if results.Len() != 2 {
		return false
	}
	named, ok := types.Unalias(results.At(0).Type()).(*types.Named)
	return ok && named.Obj().Pkg() != nil && isRuntime(named.Obj().Pkg().Path()) && named.Obj().Name() == "Result"
}

func receiverOf(fn *types.Func) *types.TypeName {
	recv := fn.Signature().Recv()
	if recv == nil {
		return nil
	}
	t := types.Unalias(recv.Type())
	if pointer, ok := t.(*types.Pointer); ok {
		t = types.Unalias(pointer.Elem())
	}
	if named, ok := t.(*types.Named); ok {
		return named.Obj()
	}
	return nil
}

// declarationReader collects the findings about one declaration.
type declarationReader struct {
	*reader
	*declaration
	info *types.Info
	// redundant are the names of fields that have no effect if another field is set.
	redundant map[*ast.Ident]bool
}

func (f *declarationReader) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CompositeLit:
		f.literal(n)
	case *ast.Ident:
		f.use(n)
	case *ast.TypeAssertExpr:
		f.assertion(n)
	}
	return true
}

// literal notes that Requeue has no effect in a Result with RequeueAfter.
func (f *declarationReader) literal(n *ast.CompositeLit) {
	fields := map[string]*ast.Ident{}
	for _, element := range n.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok {
				fields[key.Name] = key
			}
		}
	}
	if requeue, after := fields["Requeue"], fields["RequeueAfter"]; requeue != nil && after != nil {
		f.redundant[requeue] = true
	}
}

// use judges the use of a name.
func (f *declarationReader) use(id *ast.Ident) {
	obj := f.info.Uses[id]
	if obj == nil || obj.Pkg() == nil {
		return
	}
	path := obj.Pkg().Path()
	if isClientGoInformer(path, obj.Name()) && obj.Parent() == obj.Pkg().Scope() {
		f.add(&f.report.Program, Stays, id.Pos(), obj.Pkg().Name()+"."+obj.Name(),
			"an informer of client-go: it runs as before, next to the library's cache, and may not show the program's own writes yet")
		return
	}
	if !isRuntime(path) {
		return
	}
	name := nameOf(obj, f.owner(id))
	if name == "" {
		return
	}
	f.report.Uses++
	f.names[name] = true
	if rule, ok := programRules[name]; ok {
		f.add(&f.report.Program, rule.verdict, id.Pos(), name, rule.advice)
	}
	rule := libraryRules[name]
	switch {
	case rule.verdict == "":
		rule.verdict = Moves
	case f.redundant[id]:
		rule = redundantRequeue
	}
	for _, part := range f.parts {
		f.add(&part.found.Findings, rule.verdict, id.Pos(), name, rule.advice)
	}
	if len(f.parts) == 0 && !f.test && rule.verdict != Moves {
		f.add(&f.report.Elsewhere, rule.verdict, id.Pos(), name, rule.advice)
	}
}

// assertion judges x.(T): informers of the cache are not client-go's.
func (f *declarationReader) assertion(n *ast.TypeAssertExpr) {
	if n.Type == nil {
		return
	}
	from, to := typeName(f.info.TypeOf(n.X)), typeName(f.info.TypeOf(n.Type))
	if from == nil || to == nil || from.Pkg() == nil || !isRuntime(from.Pkg().Path()) || to.Pkg() == nil {
		return
	}
	if from.Name() == "Cache" && to.Name() != "Cache" && !isRuntime(to.Pkg().Path()) {
		f.add(&f.report.Program, Change, n.Pos(), from.Name()+".("+to.Name()+")",
			"the cache has another type: it is a *cluster.Cache of kelson.dev/operator/adapter/cluster")
	}
	if from.Name() == "Informer" && to.Name() == "SharedIndexInformer" {
		f.add(&f.report.Program, Stays, n.Pos(), "Informer.(SharedIndexInformer)",
			"works for reading; SetTransform and SetWatchErrorHandler return an error, and the store has no indexes of IndexField")
	}
}

func typeName(t types.Type) *types.TypeName {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		return t.Obj()
	}
	return nil
}

func (f *declarationReader) add(to *[]Finding, v Verdict, pos token.Pos, name, advice string) {
	file, line := f.position(pos)
	*to = append(*to, Finding{Verdict: v, File: file, Line: line, Name: name, Advice: advice})
}

// owner returns the struct type whose field an identifier selects or sets, or nil.
func (f *declarationReader) owner(id *ast.Ident) *types.TypeName {
	field, ok := f.info.Uses[id].(*types.Var)
	if !ok || !field.IsField() {
		return nil
	}
	// go/types does not record the struct of a field. Search the package-level types for it.
	scope := field.Pkg().Scope()
	for _, name := range scope.Names() {
		typ, ok := scope.Lookup(name).(*types.TypeName)
		if !ok {
			continue
		}
		st, ok := typ.Type().Underlying().(*types.Struct)
		if !ok {
			continue
		}
		for n := range st.NumFields() {
			if st.Field(n).Origin() == field.Origin() {
				return typ
			}
		}
	}
	return nil
}

// nameOf returns the name of an object in the form of rules, or "" if rules cannot name the object.
func nameOf(obj types.Object, owner *types.TypeName) string {
	pkg := obj.Pkg().Name()
	if obj.Pkg().Path() == runtimePath {
		pkg = "ctrl"
	}
	switch obj := obj.(type) {
	case *types.Func:
		if recv := receiverOf(obj); recv != nil {
			return pkg + "." + plainName(recv.Name()) + "." + obj.Name()
		}
	case *types.Var:
		if obj.IsField() {
			if owner == nil {
				return ""
			}
			return pkg + "." + plainName(owner.Name()) + "." + obj.Name()
		}
		if obj.Parent() != obj.Pkg().Scope() {
			return ""
		}
	case *types.PkgName, *types.Label:
		return ""
	}
	return pkg + "." + plainName(obj.Name())
}

// plainName returns a name without the prefix of generic types.
func plainName(name string) string {
	if plain, ok := strings.CutPrefix(name, "Typed"); ok && plain != "" {
		return plain
	}
	return name
}
