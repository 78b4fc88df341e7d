package validation

import (
	"fmt"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

// list combines the markers of one list.
type list struct {
	kind, unique string // the values of k8s:listType and k8s:unique
	keys         []*model.Field
	keyNames     []string
	custom       bool // k8s:customUnique
	err          error
}

// semantic returns set, map or atomic.
func (l *list) semantic() string {
	if l.unique != "" {
		return l.unique
	}
	return l.kind
}

// union has the members of a union: fields of a struct or elements of a list.
type union struct {
	members       []member
	discriminator *model.Field
}

type member struct {
	name  string // in errors
	value string // of the discriminator
	field *model.Field
	terms []term // of an element
}

// mode is one rule of k8s:ifMode.
type mode struct {
	value string
	rule  *marker.Marker
	at    place
}

// metadata collects what several markers say together, in a first pass: lists, unions and modes, by
// path. It also finds the places and fields that markers name.
type metadata struct {
	api            *model.API
	lists          map[string]*list
	unions         map[string]*union       // by marker, path of the parent and name
	discriminators map[string]*model.Field // of modes, by path of the parent and modality
	modes          map[string][]mode       // by path of the field and modality
	updates        map[string][]string
	learned        map[string]bool // types
}

func newMetadata(api *model.API) *metadata {
	return &metadata{
		api: api, lists: map[string]*list{}, unions: map[string]*union{}, discriminators: map[string]*model.Field{},
		modes: map[string][]mode{}, updates: map[string][]string{}, learned: map[string]bool{},
	}
}

// learn collects the metadata of a type and its fields.
func (md *metadata) learn(n *loader.Named) {
	if md.learned[n.String()] {
		return
	}
	md.learned[n.String()] = true
	for _, m := range md.api.Type(n.Decl).Markers {
		md.collect(typePlace(n), m)
	}
	for _, f := range md.fields(n) {
		for _, m := range f.Markers {
			md.collect(fieldPlace(n, f), m)
		}
	}
}

func unionKey(family, parent, name string) string { return family + "\n" + parent + "\n" + name }

// collect adds the data of a marker to the metadata. It ignores errors in places, which the second
// pass reports.
func (md *metadata) collect(p place, m *marker.Marker) {
	if in := payload(m); in != nil {
		at, err := md.inner(p, m)
		if err != nil {
			return
		}
		if m.Name == "k8s:ifMode" && p.field != nil {
			key := p.path + "\n" + m.String("modality")
			md.modes[key] = append(md.modes[key], mode{value: modeValue(m), rule: in, at: at})
		}
		md.collect(at, in)
		return
	}
	switch m.Name {
	case "k8s:listType", "k8s:unique", "k8s:listMapKey", "k8s:customUnique":
		md.collectList(p, m)
	case "k8s:unionMember", "k8s:zeroOrOneOfMember":
		md.collectMember(p, m)
	case "k8s:unionDiscriminator":
		md.union("k8s:unionMember", p.parentPath, m.String("union")).discriminator = p.field
	case "k8s:modeDiscriminator":
		md.discriminators[p.parentPath+"\n"+m.String("modality")] = p.field
	case "k8s:update":
		md.updates[p.path] = append(md.updates[p.path], m.Text())
	}
}

func modeValue(m *marker.Marker) string {
	if m.Has("mode") {
		return m.String("mode")
	}
	return m.String("")
}

func (md *metadata) union(family, parent, name string) *union {
	key := unionKey(family, parent, name)
	u := md.unions[key]
	if u == nil {
		u = &union{}
		md.unions[key] = u
	}
	return u
}

func (md *metadata) collectMember(p place, m *marker.Marker) {
	u := md.union(m.Name, p.parentPath, m.String("union"))
	mem := member{field: p.field, terms: p.selector}
	if p.field != nil {
		mem.name, mem.value = jsonName(p.field), p.field.Name
	} else if len(p.path) > len(p.parentPath) {
		mem.name = lastElement(p.path)
	}
	if m.Has("memberName") {
		mem.value = m.String("memberName")
	}
	u.members = append(u.members, mem)
}

func (md *metadata) collectList(p place, m *marker.Marker) {
	l := md.lists[p.path]
	if l == nil {
		l = &list{}
		md.lists[p.path] = l
	}
	fail := func(format string, args ...any) {
		if l.err == nil {
			l.err = fmt.Errorf(format, args...)
		}
	}
	elem := element(p.typ)
	if !isSlice(p.typ) {
		fail("applies to lists, not to %s", p.typ)
		return
	}
	switch m.Name {
	case "k8s:customUnique":
		l.custom = true
	case "k8s:listMapKey":
		f := md.fieldByJSON(elem, m.Text())
		switch {
		case f == nil:
			fail("names the key %q, which %s does not have", m.Text(), elem)
			return
		case basic(f.Type()) == "":
			fail("names the key %q, which is not a string, number or boolean", m.Text())
		}
		l.keys, l.keyNames = append(l.keys, f), append(l.keyNames, m.Text())
	default:
		kind := m.Text()
		known := kind == "set" || kind == "map" || kind == "atomic" && m.Name == "k8s:listType"
		to := &l.kind
		if m.Name == "k8s:unique" {
			to = &l.unique
		}
		switch {
		case !known:
			fail("has the unknown value %q", kind)
		case kind == "map" && structOf(elem) == nil:
			fail("map applies to lists of structs, not to %s", p.typ)
		case *to != "":
			fail("is declared twice")
		}
		*to = kind
	}
}

// check returns the first problem of a list's markers.
func (l *list) check() error {
	switch {
	case l.err != nil:
		return l.err
	case l.unique != "" && (l.kind == "set" || l.kind == "map"):
		return fmt.Errorf("+k8s:unique is redundant with +k8s:listType=%s", l.kind)
	case l.kind == "":
		return fmt.Errorf("the list also needs +k8s:listType=atomic, set or map")
	case l.semantic() == "map" && len(l.keys) == 0:
		return fmt.Errorf("a map list also needs +k8s:listMapKey")
	case l.semantic() != "map" && len(l.keys) > 0:
		return fmt.Errorf("+k8s:listMapKey needs +k8s:listType=map or +k8s:unique=map")
	}
	return nil
}

// listOf returns the metadata of the list at a place, its own or that of its type, or nil.
func (md *metadata) listOf(p place) *list {
	if l := md.lists[p.path]; l != nil {
		return l
	}
	if n := named(p.typ); n != nil {
		md.learn(n)
		return md.lists[n.String()]
	}
	return nil
}
