package applyconfiguration

import (
	"errors"
	"fmt"
	"go/ast"
	"path"
	"slices"
	"sort"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"kelson.dev/toolchain/gen/client"
	"kelson.dev/toolchain/gen/crd"
	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/model"
)

const (
	metaPath  = "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiPrefix = "k8s.io/api/"
	clientGo  = "k8s.io/client-go/applyconfigurations/"
)

// Config configures Generate.
type Config struct {
	API       *model.API
	Workspace *loader.Workspace
	Packages  []*model.Package
	Output    client.Output
	// Definitions has the options of the kinds' CustomResourceDefinitions, whose schemas determine
	// field ownership.
	Definitions crd.Options
}

// Generate generates the apply configurations of the packages' kinds, and of the structs that they
// use from all packages of the workspace. The warnings list the kinds without Extract functions,
// with reasons.
func Generate(cfg Config) (files []client.File, warnings []error, err error) {
	cfg.Definitions.AllowFloats = true
	g := &generator{
		Config: cfg, local: map[string]*model.Package{}, done: map[string]bool{}, crds: crd.New(cfg.API, cfg.Definitions),
		models: map[string]*spec.Schema{}, extracts: map[*loader.Decl]string{}, groups: map[string]string{},
	}
	clients, _ := cfg.API.Clients(cfg.Packages) // the generator of clients reports the errors
	for _, group := range clients {
		for _, v := range group.Versions {
			g.groups[v.Package.Path] = group.Package
		}
	}
	for _, p := range cfg.API.Packages {
		g.local[p.Path] = p
	}
	for _, p := range cfg.Packages {
		for _, t := range p.Types {
			if g.isRoot(p, t) {
				g.want(t.Decl)
				if err := g.learn(p, t); err != nil {
					warnings = append(warnings, err)
				}
			}
		}
	}
	for len(g.queue) > 0 {
		d := g.queue[0]
		g.queue = g.queue[1:]
		g.written = append(g.written, d)
		f := source.New(g.outputOf(d.Pkg), g.local[d.Pkg.Path].Name)
		g.write(f, d)
		data, err := f.Bytes(source.Options{Header: cfg.Output.Header})
		if err != nil {
			g.errs = append(g.errs, err)
			continue
		}
		files = append(files, client.File{Name: path.Join(f.Path(), strings.ToLower(d.Name)+".go"), Content: data})
	}
	if len(files) > 0 {
		for name, write := range map[string]func() ([]byte, error){g.parserPath() + "/internal.go": g.parser, g.Output.ApplyConfigurations() + "/utils.go": g.kinds} {
			data, err := write()
			if err != nil {
				g.errs = append(g.errs, err)
			}
			files = append(files, client.File{Name: name, Content: data})
		}
	}
	sort.Slice(files, func(i, j int) bool { return files[i].Name < files[j].Name })
	return files, warnings, errors.Join(g.errs...)
}

type generator struct {
	Config
	local map[string]*model.Package
	queue []*loader.Decl
	done  map[string]bool
	errs  []error

	written  []*loader.Decl
	crds     *crd.Generator
	models   map[string]*spec.Schema // by name: the schemas that Extract functions use
	extracts map[*loader.Decl]string // the names of the kinds' schemas
	groups   map[string]string       // by import path: the name of the group's packages in clients
}

// isRoot reports whether the type gets an apply configuration even if no other type uses it.
func (g *generator) isRoot(p *model.Package, t *model.Type) bool {
	if m := t.Markers.Get("kubebuilder:ac:generate"); m != nil {
		return m.Value == true
	}
	if m := p.Markers.Get("kubebuilder:ac:generate"); m != nil && m.Value == false {
		return false
	}
	return p.HasAPI && t.IsRoot() && !t.Generic()
}

// outputOf returns the import path of the apply configurations of a package's types.
func (g *generator) outputOf(pkg *loader.Package) string {
	p := g.local[pkg.Path]
	base := g.Output.ApplyConfigurations()
	if m := p.Markers.Get("kubebuilder:ac:output:package"); m != nil {
		base = path.Join(pkg.Path, m.Text())
	}
	if name := g.groups[pkg.Path]; name != "" {
		return base + "/" + name + "/" + p.Version
	}
	if p.HasAPI {
		return base + "/" + model.GroupPackage(p.Group) + "/" + p.Version
	}
	elements := strings.Split(pkg.Path, "/")
	return base + "/" + strings.Join(elements[max(0, len(elements)-2):], "/")
}

// want schedules the generation of a type if it is not scheduled yet.
func (g *generator) want(d *loader.Decl) {
	if key := d.Pkg.Path + "." + d.Name; !g.done[key] {
		g.done[key] = true
		g.queue = append(g.queue, d)
	}
}

// configuration returns the apply configuration of a struct type as a type without a star, or "" if
// the type is used unchanged.
func (g *generator) configuration(f *source.File, t loader.Type) string {
	n, ok := t.(*loader.Named)
	if !ok || len(n.Args) > 0 || !ast.IsExported(n.Decl.Name) {
		return ""
	}
	if _, isStruct := n.Underlying().(*loader.Struct); !isStruct || loader.Implements(n, "MarshalJSON") || loader.Implements(n, "MarshalText") {
		return ""
	}
	name := n.Decl.Name + "ApplyConfiguration"
	pkg := n.Decl.Pkg
	if g.local[pkg.Path] != nil {
		g.want(n.Decl)
		return f.Qualified(g.outputOf(pkg), pkg.Name, name)
	}
	var at string
	switch {
	case pkg.Path == metaPath:
		at = clientGo + "meta/v1"
	case strings.HasPrefix(pkg.Path, apiPrefix):
		at = clientGo + strings.TrimPrefix(pkg.Path, apiPrefix)
	default:
		return ""
	}
	known, err := g.Workspace.Import(at)
	if err != nil && pkg.Path == metaPath {
		g.errs = append(g.errs, fmt.Errorf("apply configurations need k8s.io/client-go in go.mod: %w", err))
	}
	if err != nil || known.Type(name) == nil {
		return "" // client-go is too old, or not required
	}
	return f.Use(at, known.Name, "applyconfigurations"+strings.ReplaceAll(strings.TrimPrefix(at, clientGo), "/", "")) + "." + name
}

// member is a field of an apply configuration.
type member struct {
	name, json, doc string
	embedded        bool
	typ             loader.Type
	at              *model.Field
}

func (g *generator) members(n *loader.Named) []member {
	st, ok := n.Underlying().(*loader.Struct)
	if !ok {
		return nil
	}
	var list []member
	for _, f := range g.API.Fields(n.Decl.Origin().Pkg, st) {
		tag, ok := f.Tag.Lookup("json")
		name, opts, _ := strings.Cut(tag, ",")
		if !ok && !f.Embedded || name == "-" || !ast.IsExported(f.Name) {
			continue
		}
		m := member{name: f.Name, json: name, doc: f.Doc, embedded: f.Embedded, typ: f.Type(), at: f}
		if f.Embedded && name == "" && !slices.Contains(strings.Split(opts, ","), "inline") && ok && opts != "" {
			m.embedded = false
		}
		list = append(list, m)
	}
	return list
}
