package conversion

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"sort"
	"strconv"
	"strings"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/model"
)

// FileName and TestFileName are the names of the generated file and its test, next to the types.
const (
	FileName     = "zz_generated.conversion.go"
	TestFileName = "zz_generated.conversion_test.go"
)

const (
	metaPath           = "k8s.io/apimachinery/pkg/apis/meta/v1"
	operatorModule     = "kelson.dev/operator"
	controllerRuntime  = "sigs.k8s.io/controller-runtime"
	conversionFnMarker = "k8s:conversion-gen"
	externalMarker     = "k8s:conversion-gen-external-types"
	explicitMarker     = "k8s:conversion-gen:explicit-from"
	generatorName      = "conversion" // in +kelson:generate
)

// Config configures Generate.
type Config struct {
	API       *model.API
	Workspace *loader.Workspace
	Package   *model.Package
	Header    string
	// Registered means that the registration of the package is generated too.
	Registered bool
}

// Files has the generated files. A field is nil if there is no such file.
type Files struct{ Source, Test []byte }

// Hub returns the import path of the package of the hub version, or "" if the package is not a
// spoke.
func Hub(p *model.Package) string {
	for _, m := range p.Markers {
		if m.Name == conversionFnMarker && m.Text() != "false" && m.Text() != "" {
			return m.Text()
		}
	}
	return ""
}

// Generate generates the conversions of a spoke, the Hub methods of a hub, and the conversions of
// queries. The error joins all errors.
func Generate(cfg Config) (Files, error) {
	g := &generator{Config: cfg, File: source.New(cfg.Package.Path, cfg.Package.Name), spoke: cfg.Package.Package,
		manual: map[*loader.Package]map[string]*loader.Func{}}
	hub := Hub(cfg.Package)
	if hub == "" && len(fromValues(cfg.Package)) == 0 {
		g.hubMethods()
		return g.files(nil)
	}
	if hub != "" {
		m := cfg.Package.Markers.Get(conversionFnMarker)
		var err error
		if g.hub, err = cfg.Workspace.Import(hub); err != nil {
			return Files{}, loader.Errorf(m.Pos, "+%s: %v", conversionFnMarker, err)
		}
		if g.spoke, err = spokeOf(cfg.Workspace, cfg.Package); err != nil {
			return Files{}, err
		}
	}
	g.collect()
	g.generate()
	if hub == "" {
		g.hubMethods()
		return g.files(nil)
	}
	test, err := g.test()
	g.Fail(err)
	return g.files(test)
}

// files returns the generated files, unless there are errors.
func (g *generator) files(test []byte) (Files, error) {
	if len(g.errs) > 0 {
		return Files{}, errors.Join(g.errs...)
	}
	if g.Len() == 0 {
		return Files{}, nil
	}
	src, err := g.Bytes(source.Options{Header: g.Header, Constraint: source.Constraint})
	return Files{Source: src, Test: test}, err
}

// spokeOf returns the package with the types of a spoke, usually the package itself.
func spokeOf(ws *loader.Workspace, p *model.Package) (*loader.Package, error) {
	m := p.Markers.Get(externalMarker)
	if m == nil {
		return p.Package, nil
	}
	types, err := ws.Import(m.Text())
	if err != nil {
		return nil, loader.Errorf(m.Pos, "+%s: %v", externalMarker, err)
	}
	return types, nil
}

type generator struct {
	Config
	*source.File
	spoke, hub *loader.Package
	manual     map[*loader.Package]map[string]*loader.Func // functions by name
	spokes     []spoke                                     // that of this package is the first
	errs       []error
}

// spoke is a package whose types are converted, with the package of the functions.
type spoke struct {
	types, hub, functions *loader.Package
	pairs                 map[string]bool // names of the structs of types and hub
}

// collect finds the spokes of this package, and of all that do not import it.
func (g *generator) collect() {
	if g.hub != nil {
		g.spokes = []spoke{g.pairs(g.Package.Package, g.spoke, g.hub)}
	}
	for _, p := range g.API.Packages {
		if p == g.Package || Hub(p) == "" || g.uses(p.Package, map[*loader.Package]bool{}) {
			continue
		}
		hub, err := g.Workspace.Import(Hub(p))
		if err != nil {
			continue // the generation of that package reports it
		}
		if types, err := spokeOf(g.Workspace, p); err == nil {
			g.spokes = append(g.spokes, g.pairs(p.Package, types, hub))
		}
	}
}

// uses reports whether a package imports this one, perhaps through others of the project.
func (g *generator) uses(p *loader.Package, seen map[*loader.Package]bool) bool {
	if seen[p] {
		return false
	}
	seen[p] = true
	return imports(p, g.Package.Path) || slices.ContainsFunc(g.API.Packages, func(other *model.Package) bool {
		return imports(p, other.Path) && g.uses(other.Package, seen)
	})
}

func imports(p *loader.Package, path string) bool {
	return slices.ContainsFunc(p.Files, func(f *loader.File) bool {
		return slices.ContainsFunc(f.Syntax.Imports, func(s *ast.ImportSpec) bool {
			return s.Path.Value == strconv.Quote(path)
		})
	})
}

// pairs returns a spoke with the structs that it and its hub have.
func (g *generator) pairs(functions, types, hub *loader.Package) spoke {
	s := spoke{types: types, hub: hub, functions: functions, pairs: map[string]bool{}}
	for _, d := range types.Types() {
		if other := hub.Type(d.Name); other != nil && converted(d) && converted(other) {
			t := g.API.Type(d)
			s.pairs[d.Name] = !t.Markers.Has(conversionFnMarker) || wants(t)
		}
	}
	return s
}

// own returns the packages whose hand-written conversions of any types are called.
func (g *generator) own() []*loader.Package {
	if g.hub == nil {
		return []*loader.Package{g.Package.Package}
	}
	return []*loader.Package{g.Package.Package, g.spoke, g.hub}
}

// byHand returns the hand-written conversion of two types in packages, or nil.
func (g *generator) byHand(from, to loader.Type, packages ...*loader.Package) *loader.Func {
	for _, p := range packages {
		if g.manual[p] == nil {
			g.manual[p] = map[string]*loader.Func{}
			for _, f := range p.Funcs() {
				g.manual[p][f.Name()] = f
			}
		}
		f := g.manual[p][g.function(from, to)]
		if f == nil {
			continue
		}
		if params := p.Params(f); len(params) == 3 && params[0].String() == "*"+from.String() &&
			params[1].String() == "*"+to.String() {
			return f
		}
	}
	return nil
}

// problem is a field that cannot be converted automatically.
type problem struct {
	pos  token.Position
	text string
}

func (g *generator) generate() {
	var names []string
	if g.hub != nil {
		for name, wanted := range g.spokes[0].pairs {
			if wanted {
				names = append(names, name)
			}
		}
	}
	sort.Strings(names)
	type conversion struct{ from, to *loader.Decl }
	var list []conversion
	for _, n := range names {
		list = append(list, conversion{g.spoke.Type(n), g.hub.Type(n)}, conversion{g.hub.Type(n), g.spoke.Type(n)})
	}
	var generated, manual strings.Builder
	for _, c := range list {
		into, add := &generated, "AddGeneratedConversionFunc"
		if g.byHand(c.from.Type(), c.to.Type(), g.own()...) != nil {
			into, add = &manual, "AddConversionFunc"
		}
		from, to := g.Type(c.from.Type()), g.Type(c.to.Type())
		fmt.Fprintf(into, "if err := s.%s((*%s)(nil), (*%s)(nil), func(a, b any, scope $conversion.Scope) error {\nreturn %s(a.(*%s), b.(*%s), scope)\n}); err != nil {\nreturn err\n}\n",
			add, from, to, g.function(c.from.Type(), c.to.Type()), from, to)
	}
	for _, t := range fromValues(g.Package) {
		generated.WriteString(g.values(t))
	}
	functions := g.Take()
	if g.Registered || g.Package.Declares("localSchemeBuilder") {
		g.Printf("func init() { localSchemeBuilder.Register(RegisterConversions) }\n")
	}
	g.Expand(`// RegisterConversions registers the conversions between the package's types and those of its hub.
func RegisterConversions(s *$runtime.Scheme) error {
`+generated.String()+manual.String()+`return nil
}
`, nil)
	g.Printf("%s", functions)
	for _, c := range list {
		g.pair(c.from, c.to)
	}
	if g.hub != nil {
		g.methods(names)
	}
}

// converted reports whether a type is a struct that conversions are generated for.
func converted(d *loader.Decl) bool {
	if d.Generic() || d.Alias || !ast.IsExported(d.Name) {
		return false
	}
	_, ok := d.Type().Underlying().(*loader.Struct)
	return ok
}

func wants(t *model.Type) bool {
	m := t.Markers.Get(conversionFnMarker)
	return m == nil || m.Text() != "false"
}

// function returns the name of the conversion function of two types, as conversion-gen does.
func (g *generator) function(from, to loader.Type) string {
	return "Convert_" + inName(from) + "_To_" + inName(to)
}

// inName returns a type as it is in the names of functions.
func inName(t loader.Type) string {
	switch t := t.(type) {
	case *loader.Named:
		return t.Decl.Pkg.Name + "_" + t.Decl.Name
	case *loader.Pointer:
		return "Pointer_" + inName(t.Elem)
	case *loader.Slice:
		return "Slice_" + inName(t.Elem)
	case *loader.Map:
		return "Map_" + inName(t.Key) + "_To_" + inName(t.Elem)
	}
	return t.String()
}

// pair generates the conversion of one struct to another.
func (g *generator) pair(from, to *loader.Decl) {
	name := g.function(from.Type(), to.Type())
	in, out := g.Type(from.Type()), g.Type(to.Type())
	body, problems := g.body(from, to)
	vars := source.Vars{"name": name, "in": in, "out": out, "body": body}
	if g.byHand(from.Type(), to.Type(), g.own()...) != nil {
		if len(problems) > 0 {
			vars["left"] = "// " + name + "  must convert these fields:\n"
			for _, p := range problems {
				vars["left"] += "//   - " + p.text + "\n"
			}
		} else {
			vars["left"] = ""
		}
		g.Expand(`// auto$name converts the fields that can be converted automatically.
${left}func auto$name(in *$in, out *$out, s $conversion.Scope) error {
${body}return nil
}
`, vars)
		return
	}
	for _, p := range problems {
		g.errs = append(g.errs, loader.Errorf(p.pos, "%s; write %s in package %s", p.text, name, g.Package.Name))
	}
	g.Expand(`func auto$name(in *$in, out *$out, s $conversion.Scope) error {
${body}return nil
}

// $name converts all fields.
func $name(in *$in, out *$out, s $conversion.Scope) error {
	return auto$name(in, out, s)
}
`, vars)
}

// body returns the statements that convert the fields of *in to those of *out.
func (g *generator) body(from, to *loader.Decl) (string, []problem) {
	var b strings.Builder
	var problems []problem
	theirs := map[string]*loader.Field{}
	for _, f := range to.Type().Underlying().(*loader.Struct).Fields {
		theirs[f.Name] = f
	}
	for _, f := range g.API.Type(from).Fields {
		if n, ok := f.Type().(*loader.Named); ok && f.Embedded && n.Is(metaPath, "TypeMeta") {
			continue // the scheme sets it
		}
		if f.Name == "_" || f.Markers.Has(conversionFnMarker) && f.Markers.Get(conversionFnMarker).Text() == "false" {
			continue
		}
		other := theirs[f.Name]
		if other == nil {
			problems = append(problems, g.problem(f, from, "%s.%s.%s has no counterpart in %s.%s", from.Pkg.Name,
				from.Name, f.Name, to.Pkg.Name, to.Name))
			continue
		}
		c := &copier{generator: g}
		c.value("in."+f.Name, "out."+f.Name, f.Type(), other.Type())
		if c.why != "" {
			problems = append(problems, g.problem(f, from, "%s.%s.%s: %s", from.Pkg.Name, from.Name, f.Name, c.why))
			continue
		}
		b.WriteString(c.b.String())
	}
	return b.String(), problems
}

// problem reports a problem where the author can fix it: at the field or, for a field of the hub,
// at the spoke's type.
func (g *generator) problem(f *model.Field, from *loader.Decl, format string, args ...any) problem {
	p := problem{pos: f.Pos(), text: fmt.Sprintf(format, args...)}
	if from.Pkg != g.spoke {
		p.pos = g.spoke.Type(from.Name).Pos()
	}
	return p
}

// methods generates the methods that conversion webhooks or kelson.dev/apiserver call. Conversion
// webhooks pass an interface, kelson.dev/apiserver passes the type of the hub.
func (g *generator) methods(names []string) {
	if g.spoke != g.Package.Package {
		return // methods are declared in the package of the type
	}
	served := g.Package.Served()
	hub := ""
	if !served {
		var ok bool
		if hub, ok = hubInterface(g.Workspace, g.File); !ok {
			return
		}
	}
	var noHub []string
	for _, n := range names {
		t := g.API.Type(g.spoke.Type(n))
		if !t.IsRoot() || loader.FindMethod(t.Type(), "ConvertTo") != nil ||
			loader.FindMethod(t.Type(), "ConvertFrom") != nil ||
			loader.FindMethod(t.Type(), "Hub") != nil {
			continue
		}
		param, value := hub, "hub.(*"+g.Type(g.hub.Type(n).Type())+")"
		if served {
			param, value = "*"+g.Type(g.hub.Type(n).Type()), "hub"
		} else if loader.FindMethod(g.hub.Type(n).Type(), "Hub") == nil {
			noHub = append(noHub, n)
		}
		g.Expand(`// ConvertTo converts the object to the hub version.
func (in *$Kind) ConvertTo(hub $hub) error { return Convert_${spoke}_${Kind}_To_${name}_$Kind(in, $value, nil) }

// ConvertFrom converts the object from the hub version.
func (in *$Kind) ConvertFrom(hub $hub) error { return Convert_${name}_${Kind}_To_${spoke}_$Kind($value, in, nil) }
`, source.Vars{"Kind": n, "hub": param, "value": value, "spoke": g.spoke.Name, "name": g.hub.Name})
	}
	g.requireHub(noHub)
}

// requireHub reports that the conversions of kinds do not compile, because the kinds of the hub
// have no Hub method and the run does not generate it: only packages that request the generator get
// code. If the spoke does not request it either, the command line names the generator, which then
// runs for all packages.
func (g *generator) requireHub(kinds []string) {
	i := slices.IndexFunc(g.API.Packages, func(p *model.Package) bool { return p.Package == g.hub })
	if len(kinds) == 0 || i < 0 || !slices.Contains(g.Package.Asks(), generatorName) {
		return
	}
	pos, list := g.Package.Markers.Get(conversionFnMarker).Pos, strings.Join(kinds, ", ")
	switch hub := g.API.Packages[i]; {
	case Hub(hub) != "":
		g.errs = append(g.errs, loader.Errorf(pos,
			"+%s: package %s cannot be the hub of %s, because its own +%s=%s makes it a spoke; name the hub %[5]s",
			conversionFnMarker, hub.Path, list, conversionFnMarker, Hub(hub)))
	case !slices.Contains(hub.Asks(), generatorName):
		g.errs = append(g.errs, loader.Errorf(pos,
			"+%s: the hub package %s needs +kelson:generate=%s too, for the Hub methods of %s",
			conversionFnMarker, hub.Path, generatorName, list))
	}
}

// hubInterface returns the hub interface of the conversion webhooks that the module uses.
func hubInterface(ws *loader.Workspace, f *source.File) (string, bool) {
	switch {
	case ws.Requires(operatorModule):
		return f.Use(operatorModule+"/webhook", "webhook", "webhook") + ".Hub", true
	case ws.Requires(controllerRuntime):
		return f.Use(controllerRuntime+"/pkg/conversion", "conversion", "ctrlconversion") + ".Hub", true
	}
	return "", false
}

// hubMethods generates Hub methods for the kinds of a hub that a spoke has too.
func (g *generator) hubMethods() {
	if g.Package.Served() {
		return // the methods of the spokes name the hub's type
	}
	if _, ok := hubInterface(g.Workspace, source.New(g.Path(), g.Package.Name)); !ok {
		return
	}
	var names []string
	for _, p := range g.API.Packages {
		if Hub(p) != g.Package.Path || p.Markers.Has(externalMarker) {
			continue
		}
		for _, t := range p.Types {
			hubType := g.Package.Type(t.Name)
			if hubType != nil && t.IsRoot() && !slices.Contains(names, t.Name) &&
				loader.FindMethod(hubType.Type(), "Hub") == nil {
				names = append(names, t.Name)
			}
		}
	}
	sort.Strings(names)
	for _, n := range names {
		g.Printf("// Hub marks the version that all others convert to and from.\nfunc (*%s) Hub() {}\n", n)
	}
}
