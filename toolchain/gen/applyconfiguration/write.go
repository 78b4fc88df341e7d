package applyconfiguration

import (
	"fmt"
	"slices"
	"strings"

	"kelson.dev/toolchain/gen/client"
	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/model"
)

// write generates the apply configuration of a type.
func (g *generator) write(f *source.File, d *loader.Decl) {
	t := g.API.Type(d)
	name := d.Name + "ApplyConfiguration"
	root := t.IsRoot()
	vars := source.Vars{"Name": d.Name, "AC": name}
	f.Printf("// %s is a declarative configuration of a %s for server-side apply.", name, d.Name)
	comment(f, "", t.Doc)
	f.Printf("type %s struct {", name)
	w := &writer{generator: g, f: f, ac: name, owner: d.Name, within: []*loader.Decl{d}, taken: map[string]bool{}}
	for _, m := range g.members(d.Type()) {
		w.field(m)
	}
	f.Printf("}\n")
	if root {
		g.constructor(f, t, vars)
		g.extract(f, t, vars)
	} else {
		f.Expand(`// $Name returns an empty apply configuration of a $Name.
func $Name() *$AC { return &$AC{} }
`, vars)
	}
	// Methods of the identity and the metadata keep their names: constructors and clients call
	// them.
	for _, identity := range []bool{true, false} {
		for _, m := range g.members(d.Type()) {
			if (m.embedded && fromMeta(m.typ)) == identity {
				w.with(m, "b", "")
			}
		}
	}
	if root {
		f.Expand(`// IsApplyConfiguration marks the type as an argument of Apply.
func (b $AC) IsApplyConfiguration() {}

// GetKind returns the kind.
func (b *$AC) GetKind() *string { return b.TypeMetaApplyConfiguration.Kind }

// GetAPIVersion returns the group and version.
func (b *$AC) GetAPIVersion() *string { return b.TypeMetaApplyConfiguration.APIVersion }
`, vars)
	}
	if t.HasObjectMeta() {
		f.Expand(`// GetName returns the name, or nil.
func (b *$AC) GetName() *string {
	if b.ObjectMetaApplyConfiguration == nil {
		return nil
	}
	return b.ObjectMetaApplyConfiguration.Name
}

// GetNamespace returns the namespace, or nil.
func (b *$AC) GetNamespace() *string {
	if b.ObjectMetaApplyConfiguration == nil {
		return nil
	}
	return b.ObjectMetaApplyConfiguration.Namespace
}
`, vars)
	}
}

// constructor generates the function that creates a kind with its identity.
func (g *generator) constructor(f *source.File, t *model.Type, vars source.Vars) {
	p := g.local[t.Pkg.Path]
	version := p.Version
	if p.Group != "" {
		version = p.Group + "/" + version
	}
	vars["version"], vars["params"], vars["namespace"], vars["in"] = version, "name, namespace string",
		"\nb.WithNamespace(namespace)", " in a namespace"
	if !namespaced(t) {
		vars["params"], vars["namespace"], vars["in"] = "name string", "", ""
	}
	f.Expand(`// $Name returns an apply configuration of the $Name with a name$in.
func $Name($params) *$AC {
	b := &$AC{}
	b.WithName(name)$namespace
	b.WithKind("$Name")
	b.WithAPIVersion("$version")
	return b
}
`, vars)
}

// extract generates the functions that return the fields of an object that a field manager has
// applied.
func (g *generator) extract(f *source.File, t *model.Type, vars source.Vars) {
	name, ok := g.extracts[t.Decl]
	if !ok {
		return
	}
	p := g.local[t.Pkg.Path]
	vars["api"] = f.Use(p.Path, p.Name, "api"+p.Name)
	vars["arg"], vars["model"] = client.Argument(t.Name), name
	vars["internal"] = f.Use(g.parserPath(), "internal", "internal")
	identity := "b.WithName($arg.GetName())" // the kind may inline another Name
	if namespaced(t) {
		identity += ".WithNamespace($arg.GetNamespace())"
	}
	f.Expand(`// Extract${Name}From returns the fields of $arg, an object from the server, that fieldManager has applied to it, or to a
// subresource if one is named. Changing the result and applying it again does not affect fields of other managers. Fields that
// other managers have taken over are not in the result.
func Extract${Name}From($arg *$api.$Name, fieldManager, subresource string) (*$AC, error) {
	b := &$AC{}
	if err := $managedfields.ExtractInto($arg, $internal.Parser().Type("$model"), fieldManager, b, subresource); err != nil {
		return nil, err
	}
	`+identity+`.WithKind("$Name").WithAPIVersion("$version")
	return b, nil
}

// Extract$Name returns the fields of $arg that fieldManager has applied. If there are none, the result has only the object's identity.
func Extract$Name($arg *$api.$Name, fieldManager string) (*$AC, error) {
	return Extract${Name}From($arg, fieldManager, "")
}
`, vars)
	for _, subresource := range g.subresources(p, t) {
		vars["subresource"], vars["Subresource"] = subresource, strings.ToUpper(subresource[:1])+subresource[1:]
		f.Expand(`// Extract$Name$Subresource returns the fields that fieldManager has applied to the subresource $subresource of $arg.
func Extract$Name$Subresource($arg *$api.$Name, fieldManager string) (*$AC, error) {
	return Extract${Name}From($arg, fieldManager, "$subresource")
}
`, vars)
	}
}

// subresources returns the subresources of a kind.
func (g *generator) subresources(p *model.Package, t *model.Type) []string {
	var names []string
	if !t.Markers.Has("genclient:noStatus") && slices.ContainsFunc(t.Fields, func(f *model.Field) bool {
		return f.Name == "Status"
	}) {
		names = append(names, "status")
	}
	if t.Markers.Has("kubebuilder:subresource:scale") {
		names = append(names, "scale")
	}
	groups, _ := g.API.Clients([]*model.Package{p})
	for _, group := range groups {
		for _, k := range group.Versions[0].Kinds {
			for _, m := range k.Methods {
				if k.Decl == t.Decl && m.Subresource != "" {
					names = append(names, m.Subresource)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func namespaced(t *model.Type) bool {
	if t.Markers.Has("genclient:nonNamespaced") {
		return false
	}
	m := t.Markers.Get("kubebuilder:resource")
	return m == nil || m.String("scope") != "Cluster"
}

// writer generates the members of one apply configuration.
type writer struct {
	*generator
	f      *source.File
	ac     string
	owner  string          // the struct that declares the members
	within []*loader.Decl  // the embedded structs around it, to detect recursion
	taken  map[string]bool // the names of the With functions
}

// fromMeta reports whether a type is metav1.TypeMeta, metav1.ObjectMeta or metav1.ListMeta.
func fromMeta(t loader.Type) bool {
	n, ok := loader.Deref(t).(*loader.Named)
	return ok && n.Decl.Pkg.Path == metaPath
}

// function returns the name of the With function of a field after "With". Fields of several
// embedded structs can have one name; all but the first get the name of their struct in front.
func (w *writer) function(field string) string {
	for name := field; ; name = w.owner + name {
		if !w.taken[name] {
			w.taken[name] = true
			return name
		}
	}
}

// field generates a member's declaration. Values that cannot be nil become pointers.
func (w *writer) field(m member) {
	comment(w.f, "", m.doc)
	if m.embedded {
		if ac := w.configuration(w.f, loader.Deref(m.typ)); ac != "" {
			if m.json != "" { // metadata
				w.f.Printf("*%s `json:\"%s,omitempty\"`", ac, m.json)
			} else {
				w.f.Printf("%s `json:\",inline\"`", ac)
			}
			return
		}
		w.f.Printf("%s `json:\",inline\"`", w.f.Type(m.typ))
		return
	}
	w.f.Printf("%s %s `json:\"%s,omitempty\"`", m.name, w.optional(m.typ), m.json)
}

// optional returns a type that can be nil.
func (w *writer) optional(t loader.Type) string {
	if p, ok := t.(*loader.Pointer); ok {
		return w.optional(p.Elem)
	}
	if ac := w.configuration(w.f, t); ac != "" {
		return "*" + ac
	}
	if w.collection(t) {
		return w.plain(t)
	}
	return "*" + w.f.Type(t)
}

// collection reports whether values of the type are lists or maps.
func (w *writer) collection(t loader.Type) bool {
	switch t.Underlying().(type) {
	case *loader.Slice, *loader.Map:
		return true
	}
	return false
}

// plain returns the type with structs replaced by their apply configurations.
func (w *writer) plain(t loader.Type) string {
	switch t := t.(type) {
	case *loader.Pointer:
		return w.plain(t.Elem)
	case *loader.Slice:
		return "[]" + w.plain(t.Elem)
	case *loader.Map:
		return "map[" + w.f.Type(t.Key) + "]" + w.plain(t.Elem)
	case *loader.Array:
		return "[" + t.Len + "]" + w.plain(t.Elem)
	}
	if ac := w.configuration(w.f, t); ac != "" {
		return ac
	}
	if n, ok := t.(*loader.Named); ok && w.collection(n) && w.plainElement(n) {
		// a named list of structs becomes an unnamed list, because the named type has other
		// elements
		return w.plain(n.Underlying())
	}
	return w.f.Type(t)
}

// plainElement reports whether a list or map holds structs with apply configurations.
func (w *writer) plainElement(n *loader.Named) bool {
	switch u := n.Underlying().(type) {
	case *loader.Slice:
		return w.configuration(w.f, loader.Deref(u.Elem)) != ""
	case *loader.Map:
		return w.configuration(w.f, loader.Deref(u.Elem)) != ""
	}
	return false
}

// with generates the With function of a member, or the With functions of the members that it
// embeds. at is the expression for the struct with the member; ensure is a statement that
// initializes it.
func (w *writer) with(m member, at, ensure string) {
	if m.embedded {
		n, ok := loader.Deref(m.typ).(*loader.Named)
		if !ok {
			return
		}
		ac := w.configuration(w.f, n)
		if ac == "" || slices.Contains(w.within, n.Decl) {
			return
		}
		owner := w.owner
		w.within, w.owner = append(w.within, n.Decl), n.Decl.Name
		defer func() { w.within, w.owner = w.within[:len(w.within)-1], owner }()
		at += "." + n.Decl.Name + "ApplyConfiguration"
		if m.json != "" {
			ensure += fmt.Sprintf("if %s == nil {\n%s = &%s{}\n}\n", at, at, ac)
		}
		for _, inner := range w.members(n) {
			if inner.name == "ManagedFields" || inner.name == "SelfLink" {
				continue
			}
			w.with(inner, at, ensure)
		}
		return
	}
	vars := source.Vars{"AC": w.ac, "Field": m.name, "With": "With" + w.function(m.name), "at": at + "." + m.name,
		"ensure": ensure}
	t := loader.Deref(m.typ)
	switch u := t.Underlying().(type) {
	case *loader.Map:
		if w.configuration(w.f, t) != "" {
			break
		}
		vars["K"], vars["V"], vars["M"] = w.f.Type(u.Key), w.plain(u.Elem), w.plain(t)
		w.f.Expand(`// $With adds entries to $Field, replacing entries with the same keys, and returns the receiver.
func (b *$AC) $With(entries map[$K]$V) *$AC {
	${ensure}if $at == nil && len(entries) > 0 {
		$at = make($M, len(entries))
	}
	for k, v := range entries {
		$at[k] = v
	}
	return b
}
`, vars)
		return
	case *loader.Slice:
		vars["V"], vars["star"] = w.plain(u.Elem), ""
		if w.configuration(w.f, loader.Deref(u.Elem)) != "" {
			w.f.Expand(`// $With appends values to $Field and returns the receiver.
func (b *$AC) $With(values ...*$V) *$AC {
	${ensure}for i := range values {
		if values[i] == nil {
			panic("nil value passed to $With")
		}
		$at = append($at, *values[i])
	}
	return b
}
`, vars)
			return
		}
		w.f.Expand(`// $With appends values to $Field and returns the receiver.
func (b *$AC) $With(values ...$V) *$AC {
	${ensure}$at = append($at, values...)
	return b
}
`, vars)
		return
	}
	vars["V"], vars["value"] = w.optional(t), "value"
	if w.configuration(w.f, t) == "" && !w.collection(t) {
		vars["V"], vars["value"] = strings.TrimPrefix(vars["V"], "*"), "&value"
	}
	w.f.Expand(`// $With sets $Field and returns the receiver.
func (b *$AC) $With(value $V) *$AC {
	${ensure}$at = $value
	return b
}
`, vars)
}

// comment generates a comment from documentation.
func comment(f *source.File, first, doc string) {
	if doc == "" {
		return
	}
	for line := range strings.SplitSeq(doc, "\n") {
		f.Printf("%s", strings.TrimRight("// "+first+line, " "))
		first = ""
	}
}
