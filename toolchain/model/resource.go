package model

import (
	"path"
	"slices"
	"strings"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
)

const metaPath = "k8s.io/apimachinery/pkg/apis/meta/v1"

// Resource is a kind with all its versions.
type Resource struct {
	Group      string
	Kind       string
	ListKind   string
	Plural     string
	Singular   string
	ShortNames []string
	Categories []string
	Namespaced bool

	Labels, Annotations map[string]string // of the definition itself

	Versions []*Version // by name
}

// Version is a kind in one version of its group.
type Version struct {
	Name       string
	Package    *Package
	Root       *Type
	Served     bool
	Storage    bool
	Deprecated bool
	Warning    *string // for a deprecated version, instead of the default warning
	Status     bool
	Scale      *Scale
	Columns    []Column
	Selectable []string // JSON paths that field selectors may use
	// HasSubresources means that the definition has the field subresources, perhaps empty.
	HasSubresources bool
}

// Scale has the JSON paths of the values of the scale subresource.
type Scale struct {
	Spec, Status string
	Selector     *string
}

// Column is a column of `kubectl get`.
type Column struct {
	Name, Type, JSONPath, Description, Format string
	Priority                                  int32
}

// embeds reports whether a struct embeds the metadata types.
func (t *Type) embeds(metadata ...string) bool {
	for _, name := range metadata {
		if !slices.ContainsFunc(t.Fields, func(f *Field) bool {
			n, ok := f.embedded()
			return ok && n.Is(metaPath, name)
		}) {
			return false
		}
	}
	return true
}

// IsRoot reports whether a struct is a kind: it embeds TypeMeta and ObjectMeta. A type that is
// declared as another one is a kind only if its own markers say so.
func (t *Type) IsRoot() bool {
	return t.embeds("TypeMeta", "ObjectMeta") && (isLiteral(t.Decl) || t.IsObject())
}

// HasObjectMeta reports whether a struct embeds ObjectMeta.
func (t *Type) HasObjectMeta() bool { return t.embeds("ObjectMeta") }

// IsList reports whether a struct is the list of a kind: it embeds TypeMeta and ListMeta, and has
// items.
func (t *Type) IsList() bool {
	return t.embeds("TypeMeta", "ListMeta") && slices.ContainsFunc(t.Fields, func(f *Field) bool {
		return f.Name == "Items"
	})
}

// IsObject reports whether markers request that the type implements runtime.Object.
func (t *Type) IsObject() bool {
	if m := t.Markers.Get("kubebuilder:object:root"); m != nil {
		return m.Value == true
	}
	return slices.ContainsFunc(t.Markers, func(m *marker.Marker) bool {
		return m.Name == "k8s:deepcopy-gen:interfaces" &&
			slices.Contains(strings.Split(m.Text(), ","), "k8s.io/apimachinery/pkg/runtime.Object")
	})
}

// ResourceOf returns the API group and the resource of a kind, which may be declared in an imported
// package. ok is false if the type is not a kind, or its group is unknown: the package has no
// +groupName and is not one of k8s.io/api, whose older packages have none.
func (a *API) ResourceOf(d *loader.Decl) (group, resource string, ok bool) {
	t := a.Type(d)
	if t.Generic() || !t.IsRoot() {
		return "", "", false
	}
	if m := a.PackageMarkers(d.Pkg).Get("groupName"); m != nil {
		group = m.Text()
	} else if rest, ok := strings.CutPrefix(d.Pkg.Path, "k8s.io/api/"); ok {
		group = path.Dir(rest) // GROUP/VERSION
	} else {
		return "", "", false
	}
	for _, r := range a.Resources {
		if r.Group == group && r.Kind == d.Name {
			return group, r.Plural, true
		}
	}
	for _, m := range t.Markers {
		if plural := m.String("path"); m.Name == "kubebuilder:resource" && plural != "" {
			return group, plural, true
		}
	}
	return group, Plural(d.Name), true
}

// isMeta reports whether an embedded field has the name of a metadata type. Other fields are not
// resolved, which might load packages.
func (f *Field) isMeta() bool {
	return f.Embedded && (f.Name == "TypeMeta" || f.Name == "ObjectMeta" || f.Name == "ListMeta")
}

// embedded returns the type of an embedded field with the name of a metadata type.
func (f *Field) embedded() (*loader.Named, bool) {
	if !f.isMeta() {
		return nil, false
	}
	n, ok := f.Type().(*loader.Named)
	return n, ok
}

// unresolved returns an error for each embedded metadata type that was not found.
func (t *Type) unresolved() (errs []error) {
	for _, f := range t.Fields {
		if !f.isMeta() {
			continue
		}
		if bad, ok := f.Type().(*loader.Invalid); ok {
			errs = append(errs, bad.Err)
		}
	}
	return errs
}

// findResources collects the kinds of all packages. As in controller-gen, a type that is declared
// as another one, such as type Pizza v1.Pizza, is only a version of a kind whose struct is in the
// group.
func (a *API) findResources() (errs []error) {
	found, literal := map[[2]string]*Resource{}, map[[2]string]bool{}
	for _, p := range a.Packages {
		for _, t := range p.Types {
			literal[[2]string{p.Group, t.Name}] = literal[[2]string{p.Group, t.Name}] || isLiteral(t.Decl)
		}
	}
	for _, p := range a.Packages {
		if p.Markers.Has("kubebuilder:skip") {
			continue
		}
		for _, t := range p.Types {
			if t.Generic() || !t.IsRoot() || !literal[[2]string{p.Group, t.Name}] {
				continue
			}
			if !p.HasAPI {
				if t.Markers.Has("kubebuilder:resource", "kubebuilder:subresource:status", "kubebuilder:printcolumn",
					"kubebuilder:storageversion") {
					errs = append(errs, loader.Errorf(t.Pos(), "%s is a kind, but its package has no +groupName marker",
						t.Name))
				}
				continue
			}
			if t.Markers.Has("kubebuilder:skipversion") {
				continue
			}
			key := [2]string{p.Group, t.Name}
			r := found[key]
			if r == nil {
				plural := Plural(t.Name)
				r = &Resource{Group: p.Group, Kind: t.Name, ListKind: t.Name + "List", Plural: plural,
					Singular: strings.ToLower(t.Name), Namespaced: true}
				found[key] = r
			}
			errs = append(errs, r.add(p, t)...)
		}
	}
	for _, r := range found {
		errs = append(errs, r.check()...)
	}
	a.Resources = sorted(found)
	return errs
}

// add adds a version of the kind.
func (r *Resource) add(p *Package, t *Type) (errs []error) {
	v := &Version{Name: p.Version, Package: p, Root: t, Served: true}
	for _, m := range t.Markers {
		fail := func(format string, args ...any) { errs = append(errs, loader.Errorf(m.Pos, format, args...)) }
		switch m.Name {
		case "kubebuilder:resource":
			if s := m.String("path"); s != "" {
				r.Plural = s
			}
			if s := m.String("singular"); s != "" {
				r.Singular = s
			}
			r.ShortNames, r.Categories = m.Strings("shortName"), m.Strings("categories")
			switch s := m.String("scope"); s {
			case "", "Namespaced":
				r.Namespaced = true
			case "Cluster":
				r.Namespaced = false
			default:
				fail("+kubebuilder:resource: scope is Namespaced or Cluster, not %q", s)
			}
		case "kubebuilder:subresource:status":
			v.Status, v.HasSubresources = true, true
		case "kubebuilder:subresource:scale":
			v.Scale, v.HasSubresources = &Scale{Spec: m.String("specpath"), Status: m.String("statuspath")}, true
			if m.Has("selectorpath") {
				s := m.String("selectorpath")
				v.Scale.Selector = &s
			}
			if !strings.HasPrefix(v.Scale.Spec, ".spec.") {
				fail("+kubebuilder:subresource:scale: specpath is below .spec, not %q", v.Scale.Spec)
			}
			if !strings.HasPrefix(v.Scale.Status, ".status.") {
				fail("+kubebuilder:subresource:scale: statuspath is below .status, not %q", v.Scale.Status)
			}
		case "kubebuilder:printcolumn":
			v.HasSubresources = true // as controller-gen does
			v.Columns = append(v.Columns, Column{Name: m.String("name"), Type: m.String("type"),
				JSONPath:    m.String("JSONPath"),
				Description: m.String("description"), Format: m.String("format"), Priority: int32(m.Int("priority"))})
		case "kubebuilder:storageversion":
			v.Storage = true
		case "kubebuilder:unservedversion":
			v.Served = false
		case "kubebuilder:deprecatedversion":
			v.Deprecated = true
			if m.Has("warning") {
				s := m.String("warning")
				v.Warning = &s
			}
		case "kubebuilder:selectablefield":
			v.Selectable = append(v.Selectable, m.String("JSONPath"))
		case "kubebuilder:metadata":
			r.Annotations = pairs(r.Annotations, m.Strings("annotations"), fail)
			r.Labels = pairs(r.Labels, m.Strings("labels"), fail)
		}
	}
	for _, other := range r.Versions {
		if other.Name == v.Name {
			return append(errs, loader.Errorf(t.Pos(), "%s/%s %s is declared at %s too", r.Group, v.Name, r.Kind,
				other.Root.Pos()))
		}
	}
	r.Versions = append(r.Versions, v)
	return errs
}

// pairs adds key=value texts to a map.
func pairs(m map[string]string, texts []string, fail func(string, ...any)) map[string]string {
	for _, s := range texts {
		k, v, ok := strings.Cut(s, "=")
		if !ok {
			fail("+kubebuilder:metadata: %q is not key=value", s)
			continue
		}
		if m == nil {
			m = map[string]string{}
		}
		m[k] = v
	}
	return m
}

// check validates the versions and determines the storage version.
func (r *Resource) check() (errs []error) {
	if len(r.Versions) == 1 {
		r.Versions[0].Storage = true
	}
	stored, served := 0, false
	for _, v := range r.Versions {
		if v.Storage {
			stored++
		}
		served = served || v.Served
	}
	at := r.Versions[0].Root.Pos()
	if stored != 1 {
		errs = append(errs, loader.Errorf(at,
			"%s has %d versions, of which %d are marked +kubebuilder:storageversion; one must be", r.Kind,
			len(r.Versions), stored))
	}
	if !served {
		errs = append(errs, loader.Errorf(at, "%s serves no version; remove one of its +kubebuilder:unservedversion",
			r.Kind))
	}
	return errs
}
