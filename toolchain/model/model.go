package model

import (
	"errors"
	"go/ast"
	"sort"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
)

// API is the model of all packages below a directory.
type API struct {
	Packages  []*Package
	Resources []*Resource
	// MarkerErrors has a *loader.Error for each unknown, misplaced or malformed marker. These
	// markers have no effect.
	MarkerErrors []error
	// Unresolved has a *loader.Error for each metadata type that was not found. Without it, kinds
	// cannot be recognized.
	Unresolved []error

	ws       *loader.Workspace
	registry *marker.Registry
	markers  map[*loader.Package]*marker.Set
}

// Package is a package with its markers. Group is empty if it declares no API.
type Package struct {
	*loader.Package
	Markers marker.Markers
	Group   string
	Version string
	HasAPI  bool // it has a +groupName, perhaps an empty one
	Types   []*Type
}

// Type is a declared type with its documentation and markers.
type Type struct {
	*loader.Decl
	Doc     string
	Markers marker.Markers
	Fields  []*Field // of a struct
}

// Field is a field of a struct with its documentation and markers.
type Field struct {
	*loader.Field
	Doc     string
	Markers marker.Markers
}

// Build collects the markers and kinds of the workspace's packages. The error joins all errors
// except those in MarkerErrors and Unresolved.
func Build(ws *loader.Workspace, reg *marker.Registry) (*API, error) {
	a := &API{ws: ws, registry: reg, markers: map[*loader.Package]*marker.Set{}}
	var errs []error
	for _, lp := range ws.Packages() {
		set, err := marker.Collect(lp, reg, true)
		if err != nil {
			a.MarkerErrors = append(a.MarkerErrors, err)
		}
		a.markers[lp] = set
		p := &Package{Package: lp, Markers: set.Package}
		if m := set.Package.Get("groupName"); m != nil {
			p.Group, p.Version, p.HasAPI = m.Text(), lp.Name, true
			if v := set.Package.Get("versionName"); v != nil {
				p.Version = v.Text()
			}
		}
		for _, d := range lp.Types() {
			t := a.Type(d)
			p.Types = append(p.Types, t)
			if p.HasAPI {
				a.Unresolved = append(a.Unresolved, t.unresolved()...)
			}
		}
		a.Packages = append(a.Packages, p)
	}
	errs = append(errs, a.findResources()...)
	return a, errors.Join(errs...)
}

// Type returns the model of a declaration, which may be in an imported package.
func (a *API) Type(d *loader.Decl) *Type {
	set := a.set(d.Pkg)
	t := &Type{Decl: d, Doc: typeDoc(d), Markers: set.Type(d)}
	if st := structOf(d); st != nil {
		t.Fields = a.Fields(d.Origin().Pkg, st)
	}
	return t
}

// Fields returns the fields of a struct that is declared in pkg.
func (a *API) Fields(pkg *loader.Package, st *loader.Struct) []*Field {
	set := a.set(pkg)
	fields := make([]*Field, len(st.Fields))
	for i, f := range st.Fields {
		fields[i] = &Field{Field: f, Doc: doc(f.Syntax.Doc), Markers: set.Field(f)}
	}
	return fields
}

// set returns the markers of a package. It reads those of imported packages on first use and
// ignores errors in them.
func (a *API) set(pkg *loader.Package) *marker.Set {
	s := a.markers[pkg]
	if s == nil {
		s, _ = marker.Collect(pkg, a.registry, false)
		a.markers[pkg] = s
	}
	return s
}

// Own reports whether a package belongs to the project's module, not to one that it imports.
func (a *API) Own(pkg *loader.Package) bool { return a.ws.Own(pkg) }

// PackageMarkers returns the markers of a package itself, which may be an imported package.
func (a *API) PackageMarkers(pkg *loader.Package) marker.Markers { return a.set(pkg).Package }

// sorted returns the resources sorted by group and kind.
func sorted(rs map[[2]string]*Resource) []*Resource {
	list := make([]*Resource, 0, len(rs))
	for _, r := range rs {
		sort.Slice(r.Versions, func(i, j int) bool { return r.Versions[i].Name < r.Versions[j].Name })
		list = append(list, r)
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if a.Group != b.Group {
			return a.Group < b.Group
		}
		return a.Kind < b.Kind
	})
	return list
}

// Asks returns the generators that the package requests with +kelson:generate.
func (p *Package) Asks() []string {
	m := p.Markers.Get("kelson:generate")
	if m == nil {
		return nil
	}
	names, _ := m.Value.([]string)
	return names
}

// Served reports whether a custom API server serves the kinds of the package, so that they are not
// custom resources: the package has +kelson:crd:generate=false.
func (p *Package) Served() bool {
	for _, m := range p.Markers {
		if yes := m.Bool("generate"); m.Name == "kelson:crd" && yes != nil && !*yes {
			return true
		}
	}
	return false
}

// Objects returns the types to register in a scheme: the kinds of the package, their lists, and
// other types with a TypeMeta that implement runtime.Object, such as configurations.
func (p *Package) Objects() []*Type {
	var list []*Type
	for _, t := range p.Types {
		if t.Generic() || !ast.IsExported(t.Name) {
			continue
		}
		if m := t.Markers.Get("kubebuilder:object:root"); m != nil && m.Value == false {
			continue
		}
		if t.IsRoot() || t.IsList() || t.IsObject() && t.embeds("TypeMeta") {
			list = append(list, t)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}
