package validation

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

// FileName is the name of the generated file, next to the types.
const FileName = "zz_generated.validation.go"

// Config configures Generate.
type Config struct {
	API     *model.API
	Package *model.Package
	Header  string
	// Generated reports whether the functions of a package are generated too.
	Generated func(*loader.Package) bool
	// Output returns the import path and the name of the package of the functions of a package's
	// types. If it is nil they are next to the types.
	Output func(*loader.Package) (path, name string)
	// Prefix precedes the names of functions and variables, so that they can be next to those of
	// validation-gen.
	Prefix string
}

// Generate returns the Go source, or nil if no type of the package has rules. The error joins all
// errors, each a *loader.Error with the position of a marker or field.
func Generate(cfg Config) ([]byte, error) {
	g := newGenerator(cfg)
	var written []*node
	for _, t := range cfg.Package.Types {
		if t.Generic() || t.Alias {
			continue
		}
		if n := t.Type(); g.has(n, map[string]bool{}) && !isPointer(n) {
			written = append(written, g.node(n))
		}
	}
	g.rules.checkCustom()
	if err := errors.Join(*g.problems...); err != nil {
		return nil, err
	}
	if len(written) == 0 {
		return nil, nil
	}
	slices.SortFunc(written, func(a, b *node) int { return strings.Compare(a.typ.Decl.Name, b.typ.Decl.Name) })
	for _, v := range g.code.variables {
		g.code.Printf("var %s = %s\n", v, g.code.values[v])
	}
	for _, n := range written {
		g.method(n)
		g.write(n)
	}
	return g.code.Bytes(source.Options{Header: cfg.Header, Constraint: source.Constraint})
}

// problems are the errors of a package, in the order in which they are found.
type problems []error

func (p *problems) add(err error) { *p = append(*p, err) }

// generator writes the functions of a package. It has the types with rules, as a graph; what the
// markers of a value mean is the matter of ruleCompiler, and how calls look in Go that of writer.
type generator struct {
	cfg      Config
	meta     *metadata
	rules    *ruleCompiler
	code     *writer
	nodes    map[string]*node
	problems *problems
}

func newGenerator(cfg Config) *generator {
	g := &generator{cfg: cfg, meta: newMetadata(cfg.API), code: newWriter(cfg), nodes: map[string]*node{},
		problems: &problems{}}
	g.rules = &ruleCompiler{cfg: cfg, meta: g.meta, code: g.code, registry: marker.Standard(), problems: g.problems,
		checked: map[string]bool{}, inherited: map[string]bool{}, claimed: map[string]bool{}}
	return g
}

// method writes the method by which servers validate a kind.
func (g *generator) method(n *node) {
	t := g.cfg.API.Type(n.typ.Decl)
	if !t.IsRoot() || t.IsList() || g.cfg.Output != nil || g.cfg.Prefix != "" ||
		loader.FindMethod(n.typ, "ValidateDeclaratively") != nil {
		return
	}
	g.code.Expand(fmt.Sprintf(`// ValidateDeclaratively checks the rules of the markers. old is nil for a create.
func (in *%s) ValidateDeclaratively(ctx $context.Context, op $operation.Operation, old $runtime.Object) $field.ErrorList {
	before, _ := old.(*%s)
	return Validate_%s(ctx, op, nil, in, before)
}
`, t.Name, t.Name, t.Name), nil)
}
