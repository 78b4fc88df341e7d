package model

import (
	"errors"
	"go/ast"
	"sort"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
)

// API is everything that is declared below one directory.
type API struct {
	Packages  []*Package
	Resources []*Resource
	// MarkerErrors are the markers that are unknown, misplaced or malformed, each a *loader.Error. They count for nothing.
	MarkerErrors []error

	registry *marker.Registry
	markers  map[*loader.Package]*marker.Set
}

// Package is a package with markers. Group is empty in those that hold no API.
type Package struct {
	*loader.Package
	Markers marker.Markers
	Group   string
	Version string
	HasAPI  bool // it has a +groupName, though perhaps an empty one
	Types   []*Type
}

// Type is a declared type with what is said about it.
type Type struct {
	*loader.Decl
	Doc     string
	Markers marker.Markers
	Fields  []*Field // of a struct
}

// Field is a struct's field with what is said about it.
type Field struct {
	*loader.Field
	Doc     string
	Markers marker.Markers
}

// Build reads the markers of the workspace's packages and finds their kinds. All errors but those of markers are reported, joined.
func Build(ws *loader.Workspace, reg *marker.Registry) (*API, error) {
	a := &API{registry: reg, markers: map[*loader.Package]*marker.Set{}}
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
			p.Types = append(p.Types, a.Type(d))
		}
		a.Packages = append(a.Packages, p)
	}
	errs = append(errs, a.findResources()...)
	return a, errors.Join(errs...)
}

// Type is the model of any declaration, one of an imported package too.
func (a *API) Type(d *loader.Decl) *Type {
	set := a.set(d.Pkg)
	t := &Type{Decl: d, Doc: typeDoc(d), Markers: set.Type(d)}
	if isStruct(d) {
		t.Fields = a.Fields(d.Pkg, d.Type().Underlying().(*loader.Struct))
	}
	return t
}

// Fields are those of a struct written in pkg.
func (a *API) Fields(pkg *loader.Package, st *loader.Struct) []*Field {
	set := a.set(pkg)
	fields := make([]*Field, len(st.Fields))
	for i, f := range st.Fields {
		fields[i] = &Field{Field: f, Doc: doc(f.Syntax.Doc), Markers: set.Field(f)}
	}
	return fields
}

// set is the package's markers; those of imported packages are read leniently, on first use.
func (a *API) set(pkg *loader.Package) *marker.Set {
	s := a.markers[pkg]
	if s == nil {
		s, _ = marker.Collect(pkg, a.registry, false)
		a.markers[pkg] = s
	}
	return s
}

// PackageMarkers are those that a package, imported or not, says about itself.
func (a *API) PackageMarkers(pkg *loader.Package) marker.Markers { return a.set(pkg).Package }

// sorted orders resources by group and kind.
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

// Asks are the generators that the package names with +kelson:generate.
func (p *Package) Asks() []string {
	m := p.Markers.Get("kelson:generate")
	if m == nil {
		return nil
	}
	names, _ := m.Value.([]string)
	return names
}

// Objects are the package's kinds and lists of kinds: what a scheme knows.
func (p *Package) Objects() []*Type {
	var list []*Type
	for _, t := range p.Types {
		if t.Generic() || !ast.IsExported(t.Name) {
			continue
		}
		if m := t.Markers.Get("kubebuilder:object:root"); m != nil && m.Value == false {
			continue
		}
		if t.IsRoot() || t.IsList() {
			list = append(list, t)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}
