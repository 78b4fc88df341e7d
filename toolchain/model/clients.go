package model

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"unicode"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
)

// ClientGroup is an API group with kinds that have clients.
type ClientGroup struct {
	Name     string // shop.example.com
	Package  string // the name of its packages, such as shop
	GoName   string // Shop
	Versions []*ClientVersion
}

// ClientVersion is a version of a ClientGroup.
type ClientVersion struct {
	Group   *ClientGroup
	Name    string // v1
	GoName  string // V1
	Package *Package
	Kinds   []*ClientKind
}

// ClientKind is a kind with a client.
type ClientKind struct {
	*Type
	Version    *ClientVersion
	Plural     string // Pizzas
	Resource   string // pizzas
	Namespaced bool
	HasStatus  bool // the client has UpdateStatus
	HasList    bool // the package declares its list type
	Methods    []ClientMethod
	verbs      []string
}

// ClientMethod is a method in addition to the verbs.
type ClientMethod struct {
	Name, Verb, Subresource string
	Input, Result           string // a type, with its import path if it is in another package
}

// Verbs lists the verbs of clients, with the names in +genclient:onlyVerbs and skipVerbs.
var Verbs = []string{"create", "update", "updateStatus", "delete", "deleteCollection", "get", "list", "watch", "patch",
	"apply", "applyStatus"}

// Has reports whether the client has a verb.
func (k *ClientKind) Has(verb string) bool { return slices.Contains(k.verbs, verb) }

// Clients returns the kinds marked +genclient in the packages, by group and version, and all
// errors.
func (a *API) Clients(pkgs []*Package) ([]*ClientGroup, []error) {
	var errs []error
	groups := map[string]*ClientGroup{}
	for _, p := range pkgs {
		v := &ClientVersion{Name: p.Version, GoName: upperFirst(p.Version), Package: p}
		for _, t := range p.Types {
			if !t.Markers.Has("genclient") {
				continue
			}
			if !p.HasAPI {
				errs = append(errs, loader.Errorf(t.Pos(),
					"%s is marked +genclient, but its package has no +groupName marker", t.Name))
				continue
			}
			k, bad := newClientKind(p, t)
			errs = append(errs, bad...)
			k.Version = v
			v.Kinds = append(v.Kinds, k)
		}
		if len(v.Kinds) == 0 {
			continue
		}
		sort.Slice(v.Kinds, func(i, j int) bool { return v.Kinds[i].Name < v.Kinds[j].Name })
		g := groups[p.Group]
		if g == nil {
			g = &ClientGroup{Name: p.Group, Package: GroupPackage(p.Group), GoName: camel(firstPart(p.Group))}
			groups[p.Group] = g
		}
		if m := p.Markers.Get("groupGoName"); m != nil {
			g.GoName = m.Text()
		}
		v.Group = g
		g.Versions = append(g.Versions, v)
	}
	list := make([]*ClientGroup, 0, len(groups))
	names := map[string]string{}
	for _, g := range groups {
		sort.Slice(g.Versions, func(i, j int) bool { return g.Versions[i].Name < g.Versions[j].Name })
		list = append(list, g)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	for _, g := range list { // groups with the same first part are called by their whole names
		if other, taken := names[g.GoName]; taken {
			errs = append(errs, loader.Errorf(g.Versions[0].Kinds[0].Pos(),
				"the groups %s and %s are both called %s in clients; "+
					"name one with +groupGoName", other, g.Name, g.GoName))
		}
		if other, taken := names[g.Package]; taken && other != g.Name {
			g.Package = strings.ToLower(g.GoName)
		}
		names[g.GoName], names[g.Package] = g.Name, g.Name
	}
	return list, errs
}

// GroupPackage returns the name of a group's packages, if no other group has the same name.
func GroupPackage(group string) string { return strings.ToLower(letters(firstPart(group))) }

// firstPart returns the first part of a group's name, or core.
func firstPart(group string) string {
	first, _, _ := strings.Cut(group, ".")
	return cmp.Or(first, "core")
}

func newClientKind(p *Package, t *Type) (*ClientKind, []error) {
	var errs []error
	fail := func(m *marker.Marker, format string, args ...any) {
		errs = append(errs, loader.Errorf(m.Pos, "+"+m.Name+": "+format, args...))
	}
	lower := strings.ToLower(t.Name)
	k := &ClientKind{Type: t, Resource: Plural(t.Name), Namespaced: true, verbs: slices.Clone(Verbs),
		HasList: p.Type(t.Name+"List") != nil}
	for _, f := range t.Fields {
		k.HasStatus = k.HasStatus || f.Name == "Status"
	}
	common := 0
	for common < len(lower) && common < len(k.Resource) && lower[common] == k.Resource[common] {
		common++
	}
	k.Plural = t.Name[:common] + k.Resource[common:]
	remove := func(gone ...string) {
		k.verbs = slices.DeleteFunc(k.verbs, func(v string) bool { return slices.Contains(gone, v) })
	}
	for _, m := range t.Markers {
		switch m.Name {
		case "kubebuilder:resource":
			if s := m.String("path"); s != "" {
				k.Resource = s
			}
			k.Namespaced = k.Namespaced && m.String("scope") != "Cluster"
		case "resourceName":
			k.Resource = m.Text()
		case "genclient:nonNamespaced":
			k.Namespaced = false
		case "genclient:noStatus":
			k.HasStatus = false
		case "genclient:noVerbs":
			k.verbs = nil
		case "genclient:readonly":
			remove("create", "update", "updateStatus", "delete", "deleteCollection", "patch", "apply", "applyStatus")
		case "genclient:onlyVerbs", "genclient:skipVerbs":
			named := strings.Split(m.Text(), ",")
			for _, v := range named {
				if !slices.Contains(Verbs, v) {
					fail(m, "unknown verb %q; known verbs: %s", v, strings.Join(Verbs, ", "))
				}
			}
			if m.Name == "genclient:skipVerbs" {
				remove(named...)
			} else {
				k.verbs = slices.DeleteFunc(k.verbs, func(v string) bool { return !slices.Contains(named, v) })
			}
		case "genclient:method":
			method, err := clientMethod(m.Text())
			if err != "" {
				fail(m, "%s", err)
				continue
			}
			k.Methods = append(k.Methods, method)
		}
	}
	if !k.HasStatus {
		remove("updateStatus", "applyStatus")
	}
	if !k.HasList {
		remove("list", "deleteCollection")
	}
	return k, errs
}

// clientMethod parses NAME,verb=VERB,subresource=…,input=…,result=….
func clientMethod(text string) (m ClientMethod, problem string) {
	parts := strings.Split(text, ",")
	m.Name = parts[0]
	for _, p := range parts[1:] {
		key, value, _ := strings.Cut(p, "=")
		into := map[string]*string{"verb": &m.Verb, "subresource": &m.Subresource, "input": &m.Input,
			"result": &m.Result}[strings.TrimSpace(key)]
		if into == nil || strings.TrimSpace(value) == "" {
			return m, "expected verb=, subresource=, input= or result=, got " + p
		}
		*into = strings.TrimSpace(value)
	}
	can := map[string][2]bool{"create": {true, true}, "update": {true, true}, "apply": {true, true},
		"get": {false, true}, "list": {false, true}, "patch": {false, true}}
	inOut, ok := can[m.Verb]
	switch {
	case m.Name == "" || !unicode.IsUpper(rune(m.Name[0])):
		return m, "needs the name of an exported method first"
	case m.Verb == "":
		return m, "needs verb="
	case !ok:
		return m, "verb is create, update, apply, get, list or patch, not " + m.Verb
	case m.Input != "" && !inOut[0]:
		return m, "verb " + m.Verb + " has no input"
	}
	return m, ""
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// camel converts a name of several words to camel case.
func camel(s string) string {
	var b strings.Builder
	for w := range strings.FieldsFuncSeq(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		b.WriteString(upperFirst(w))
	}
	return b.String()
}

// letters removes the characters that Go package names cannot contain.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s)
}
