package defaults

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/model"
)

// FileName is the name of the generated file, next to the types.
const FileName = "zz_generated.defaults.go"

// Config configures Generate.
type Config struct {
	API     *model.API
	Package *model.Package
	Header  string
	// Registered means that the registration of the package is generated too.
	Registered bool
}

// Generate returns the Go source, or nil if the package's kinds have no defaults. The error joins
// all errors.
func Generate(cfg Config) ([]byte, error) {
	g := &generator{Config: cfg, File: source.New(cfg.Package.Path, cfg.Package.Name),
		local: map[string]*loader.Package{}, has: map[string]bool{},
		written: map[string]bool{}}
	for _, p := range cfg.API.Packages {
		g.local[p.Path] = p.Package
	}
	var roots []*model.Type
	for _, t := range cfg.Package.Objects() {
		if m := t.Markers.Get("k8s:defaulter-gen"); m != nil && m.Text() == "false" {
			continue
		}
		if g.needed(t.Type(), map[string]bool{}) {
			roots = append(roots, t)
		}
	}
	if len(roots) == 0 {
		return nil, nil
	}
	if cfg.Registered {
		g.Printf("func init() { localSchemeBuilder.Register(RegisterDefaults) }\n")
	}
	var adds strings.Builder
	for _, t := range roots {
		fmt.Fprintf(&adds, "scheme.AddTypeDefaultingFunc(&%s{}, func(obj any) { SetObjectDefaults_%s(obj.(*%s)) })\n",
			t.Name, t.Name, t.Name)
	}
	g.Expand(`// RegisterDefaults registers the defaulting functions of the package's kinds.
func RegisterDefaults(scheme *$runtime.Scheme) error {
	${adds}return nil
}
`, source.Vars{"adds": adds.String()})
	for _, t := range roots {
		g.function("SetObjectDefaults_"+t.Name, "fills in what the object leaves out", t.Type())
	}
	for len(g.queue) > 0 {
		n := g.queue[0]
		g.queue = g.queue[1:]
		g.function(g.inner(n), "fills in what the value leaves out", n)
	}
	if len(g.errs) > 0 {
		return nil, errors.Join(g.errs...)
	}
	return g.Bytes(source.Options{Header: cfg.Header, Constraint: source.Constraint})
}

type generator struct {
	Config
	*source.File
	local   map[string]*loader.Package
	has     map[string]bool // by type: it or a type in it has defaults
	written map[string]bool // inner functions that are or will be generated
	queue   []*loader.Named
	loops   int // around the statements that are being generated
	errs    []error
}

// manual returns the SetDefaults_ function of a type, or "".
func (g *generator) manual(n *loader.Named) string {
	p := g.local[n.Decl.Pkg.Path]
	if p == nil || len(n.Args) > 0 {
		return ""
	}
	for _, f := range p.Funcs() {
		if f.Name() != "SetDefaults_"+n.Decl.Name {
			continue
		}
		params := p.Params(f)
		if len(params) != 1 || params[0].String() != "*"+n.String() {
			g.errs = append(g.errs, loader.Errorf(f.Pos(), "%s takes a *%s and nothing else", f.Name(), n.Decl.Name))
			return ""
		}
		return g.Qualified(p.Path, p.Name, f.Name())
	}
	return ""
}

// needed reports whether a value of the type, or a nested value, has defaults.
func (g *generator) needed(t loader.Type, within map[string]bool) bool {
	switch t := t.(type) {
	case *loader.Pointer:
		return g.needed(t.Elem, within)
	case *loader.Slice:
		return g.needed(t.Elem, within)
	case *loader.Array:
		return g.needed(t.Elem, within)
	case *loader.Map:
		return g.needed(t.Elem, within)
	case *loader.Struct:
		return slices.ContainsFunc(g.unnamed(t), func(f *model.Field) bool {
			return f.Markers.Has("default") || g.needed(f.Type(), within)
		})
	case *loader.Named:
		key := t.String()
		if known, ok := g.has[key]; ok {
			return known
		}
		if within[key] || g.local[t.Decl.Pkg.Path] == nil {
			return false // types of other projects have their own defaults, or none
		}
		within[key] = true
		defer delete(within, key)
		found := g.manual(t) != ""
		if _, isStruct := t.Underlying().(*loader.Struct); isStruct {
			for _, f := range g.fields(t) {
				found = found || f.Markers.Has("default") || g.needed(f.Type(), within)
			}
		} else {
			found = found || g.needed(t.Underlying(), within)
		}
		if found || len(within) == 1 { // a negative result inside a recursion may be incomplete
			g.has[key] = found
		}
		return found
	}
	return false
}

// fields returns the fields of a struct with their markers.
func (g *generator) fields(n *loader.Named) []*model.Field {
	st, ok := n.Underlying().(*loader.Struct)
	if !ok {
		return nil
	}
	return g.API.Fields(n.Decl.Origin().Pkg, st)
}

// unnamed returns the fields of an unnamed struct with their markers, or nil if another project
// declares it.
func (g *generator) unnamed(st *loader.Struct) []*model.Field {
	for _, p := range g.local {
		if len(st.Fields) > 0 && slices.Contains(p.Files, st.Fields[0].File) {
			return g.API.Fields(p, st)
		}
	}
	return nil
}

// inner returns the name of the function for a type that is not a kind.
func (g *generator) inner(n *loader.Named) string {
	name := n.Decl.Name
	for _, a := range n.Args {
		name += "_" + strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
				return r
			}
			return '_'
		}, a.String())
	}
	if n.Decl.Pkg.Path != g.Path() {
		name = n.Decl.Pkg.Name + "_" + name
	}
	return "setDefaults_" + name
}

// function generates the function that sets the defaults of a value.
func (g *generator) function(name, what string, n *loader.Named) {
	g.Printf("// %s %s.\nfunc %s(in *%s) {", name, what, name, g.Type(n))
	if call := g.manual(n); call != "" {
		g.Printf("%s(in)", call)
	}
	if _, ok := n.Underlying().(*loader.Struct); ok {
		for _, f := range g.fields(n) {
			g.field(f, "in."+f.Name)
		}
	} else {
		g.below(n.Underlying(), "(*in)")
	}
	g.Printf("}\n")
}

// field generates the defaults of a field, the expression at, and of the values inside it.
func (g *generator) field(f *model.Field, at string) {
	if m := f.Markers.Get("default"); m != nil {
		if err := g.set(f, at, m.Raw, m.Value); err != nil {
			g.errs = append(g.errs, loader.Errorf(m.Pos, "+default %v", err))
		}
	}
	g.below(f.Type(), at)
}

// below generates the defaults of the values inside expr.
func (g *generator) below(t loader.Type, expr string) {
	if !g.needed(t, map[string]bool{}) {
		return
	}
	switch t := t.(type) {
	case *loader.Pointer:
		g.Printf("if %s != nil {", expr)
		g.address(t.Elem, expr, "(*"+expr+")")
		g.Printf("}")
	case *loader.Slice, *loader.Array:
		elem := element(t)
		i := g.enter("i")
		at := expr + "[" + i + "]"
		g.Printf("for %s := range %s {", i, expr)
		if p, ok := elem.(*loader.Pointer); ok {
			g.Printf("if %s != nil {", at)
			g.address(p.Elem, at, "(*"+at+")")
			g.Printf("}")
		} else {
			g.address(elem, "&"+at, at)
		}
		g.Printf("}")
		g.loops--
	case *loader.Map:
		key := g.enter("key")
		// set declares a variable with the name value
		value := "entry" + strings.TrimPrefix(key, "key")
		if p, ok := t.Elem.(*loader.Pointer); ok {
			g.Printf("for _, %s := range %s {\nif %s != nil {", value, expr, value)
			g.address(p.Elem, value, "(*"+value+")")
			g.Printf("}")
		} else {
			g.Printf("for %s, %s := range %s {", key, value, expr)
			g.address(t.Elem, "&"+value, value)
			g.Printf("%s[%s] = %s", expr, key, value)
		}
		g.Printf("}")
		g.loops--
	case *loader.Struct:
		for _, f := range g.unnamed(t) {
			g.field(f, expr+"."+f.Name)
		}
	case *loader.Named:
		g.address(t, "&"+expr, expr)
	}
}

// enter returns the name of a variable of a loop inside g.loops others, and counts the loop.
func (g *generator) enter(name string) string {
	if g.loops++; g.loops > 1 {
		return name + strconv.Itoa(g.loops)
	}
	return name
}

func element(t loader.Type) loader.Type {
	switch t := t.(type) {
	case *loader.Slice:
		return t.Elem
	case *loader.Array:
		return t.Elem
	}
	return t
}

// address generates a call of the type's function with a pointer, or the defaults in place if the
// type has no name.
func (g *generator) address(t loader.Type, pointer, value string) {
	n, ok := t.(*loader.Named)
	if !ok {
		g.below(t, value)
		return
	}
	name := g.inner(n)
	if !g.written[name] {
		g.written[name] = true
		g.queue = append(g.queue, n)
	}
	g.Printf("%s(%s)", name, pointer)
}

// set generates the statement that sets a field, the expression at. raw is the default as written,
// value its JSON value, or nil if raw names a constant.
func (g *generator) set(f *model.Field, at, raw string, value any) error {
	t, isPointer := f.Type(), false
	if p, ok := t.(*loader.Pointer); ok {
		t, isPointer = p.Elem, true
	}
	literal, zero, err := g.literal(t, raw, value)
	if err != nil {
		return err
	}
	switch {
	case literal == "": // a composite value, decoded from JSON
		condition := fmt.Sprintf("%s == nil", at)
		if zero == "struct" && !isPointer {
			condition = g.Use("reflect", "reflect", "reflect") + ".ValueOf(" + at + ").IsZero()"
		}
		g.Printf("if %s {\nif err := %s.Unmarshal([]byte(%s), &%s); err != nil {\npanic(err)\n}\n}", condition,
			g.Use("encoding/json", "json", "json"),
			quoted(raw), at)
	case isPointer:
		g.Printf("if %s == nil {\nvar value %s = %s\n%s = &value\n}", at, g.Type(t), literal, at)
	default:
		g.Printf("if %s == %s {\n%s = %s\n}", at, zero, at, literal)
	}
	return nil
}

func quoted(s string) string {
	if strings.Contains(s, "`") {
		return strconv.Quote(s)
	}
	return "`" + s + "`"
}

// literal returns a default value and the zero value that it replaces as Go source. Both are empty
// for composite types.
func (g *generator) literal(t loader.Type, raw string, value any) (literal, zero string, err error) {
	if inner, ok := strings.CutPrefix(raw, "ref("); ok {
		literal = g.constant(strings.TrimSuffix(inner, ")"))
	}
	switch u := t.Underlying().(type) {
	case *loader.Basic:
		switch v := value.(type) {
		case nil:
			if literal == "" {
				return "", "", fmt.Errorf("is null, which no value of %s is", t)
			}
		case string:
			if u.Name != "string" {
				return "", "", fmt.Errorf("is a string, but the field is a %s", u.Name)
			}
			literal = strconv.Quote(v)
		case bool:
			if u.Name != "bool" {
				return "", "", fmt.Errorf("is a boolean, but the field is a %s", u.Name)
			}
			literal = strconv.FormatBool(v)
		case json.Number:
			if u.Name == "string" || u.Name == "bool" {
				return "", "", fmt.Errorf("is a number, but the field is a %s", u.Name)
			}
			if _, err := v.Int64(); err != nil && !strings.HasPrefix(u.Name, "float") {
				return "", "", fmt.Errorf("is not an integer, but the field is a %s", u.Name)
			}
			literal = v.String()
		default:
			return "", "", fmt.Errorf("is not a valid %s", u.Name)
		}
		zero = map[string]string{"string": `""`, "bool": "false"}[u.Name]
		if zero == "" {
			zero = "0"
		}
		return literal, zero, nil
	case *loader.Struct:
		return "", "struct", nil
	case *loader.Slice, *loader.Map:
		return literal, "nil", nil
	}
	return "", "", fmt.Errorf("cannot be a value of %s", t)
}

// constant returns the Go constant that ref(…) names: of this package, or with an import path.
func (g *generator) constant(name string) string {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return name
	}
	path := name[:i]
	return g.Import(path, path[strings.LastIndexByte(path, '/')+1:]) + name[i:]
}
