package validation

import (
	"errors"
	"fmt"
	"regexp"
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
	path, name := cfg.Package.Path, cfg.Package.Name
	if cfg.Output != nil {
		path, name = cfg.Output(cfg.Package.Package)
	}
	g := &generator{Config: cfg, File: source.New(path, name), registry: marker.Standard(), meta: newMetadata(),
		nodes:   map[string]*node{},
		checked: map[string]bool{}, inherited: map[string]bool{}, claimed: map[string]bool{},
		values: map[string]string{}, files: map[string][]byte{}}
	g.reserve("context", "field", "operation", "safe", "validate", "equality", "sets", "runtime")
	var written []*node
	for _, t := range cfg.Package.Types {
		if t.Generic() || t.Alias {
			continue
		}
		if n := t.Type(); g.has(n, map[string]bool{}) && !isPointer(n) {
			written = append(written, g.node(n))
		}
	}
	g.checkCustom()
	if err := errors.Join(g.errs...); err != nil {
		return nil, err
	}
	if len(written) == 0 {
		return nil, nil
	}
	slices.SortFunc(written, func(a, b *node) int { return strings.Compare(a.typ.Decl.Name, b.typ.Decl.Name) })
	for _, v := range g.variables {
		g.Printf("var %s = %s\n", v, g.values[v])
	}
	for _, n := range written {
		g.method(n)
		g.write(n)
	}
	return g.Bytes(source.Options{Header: cfg.Header, Constraint: source.Constraint})
}

type generator struct {
	Config
	*source.File
	registry  *marker.Registry
	meta      metadata
	nodes     map[string]*node
	checked   map[string]bool // results of the first pass; each is written once
	inherited map[string]bool // subfields whose own rules, such as required, are written already
	claimed   map[string]bool // hand-written functions that markers call
	variables []string        // in order
	values    map[string]string
	files     map[string][]byte // by directory, the functions that it declares
	errs      []error
}

// fail records an error of a marker.
func (g *generator) fail(m *marker.Marker, err error) {
	g.errs = append(g.errs, loader.Errorf(m.Pos, "+%s %v", m.Name, err))
}

// reserve chooses names of imports that the package does not declare itself.
func (g *generator) reserve(aliases ...string) {
	for _, alias := range aliases {
		p, name := source.Packages[alias], alias
		for g.Package.Declares(name) {
			name += "_"
		}
		g.Use(p.Path, p.Clause, name)
	}
}

var notIdentifier = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// variable declares a variable of the package and returns its name.
func (g *generator) variable(name, value string) string {
	name = g.Prefix + strings.TrimRight(notIdentifier.ReplaceAllString(name, "_"), "_")
	for g.Package.Declares(name) || g.values[name] != "" && g.values[name] != value {
		name += "_"
	}
	if g.values[name] == "" {
		g.variables = append(g.variables, name)
	}
	g.values[name] = value
	return name
}

// method writes the method by which servers validate a kind.
func (g *generator) method(n *node) {
	t := g.API.Type(n.typ.Decl)
	if !t.IsRoot() || t.IsList() || g.Output != nil || g.Prefix != "" ||
		loader.FindMethod(n.typ, "ValidateDeclaratively") != nil {
		return
	}
	g.Expand(fmt.Sprintf(`// ValidateDeclaratively checks the rules of the markers. old is nil for a create.
func (in *%s) ValidateDeclaratively(ctx $context.Context, op $operation.Operation, old $runtime.Object) $field.ErrorList {
	before, _ := old.(*%s)
	return Validate_%s(ctx, op, nil, in, before)
}
`, t.Name, t.Name, t.Name), nil)
}
