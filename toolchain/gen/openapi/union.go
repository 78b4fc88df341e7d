package openapi

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"kelson.dev/toolchain/loader"
)

// union is a group of fields of which one is set, and optionally a field that names it.
type union struct {
	discriminator string
	members       map[string]string // JSON names to Go names
}

// unions returns the unions of a struct: the struct itself if it is marked +union, its fields
// marked +unionDeprecated, and the unions of embedded structs.
func (g *generator) unions(n *loader.Named, within ...*loader.Decl) []union {
	st, ok := n.Underlying().(*loader.Struct)
	if !ok || slices.Contains(within, n.Decl) {
		return nil
	}
	all, old := union{members: map[string]string{}}, union{members: map[string]string{}}
	var embedded []union
	for _, f := range g.API.Fields(n.Decl.Pkg, st) {
		tag, tagged := f.Tag.Lookup("json")
		name, _, _ := strings.Cut(tag, ",")
		if f.Embedded && tagged && name == "" {
			if inner, ok := loader.Deref(f.Type()).(*loader.Named); ok {
				embedded = append(embedded, g.unions(inner, append(within, n.Decl)...)...)
			}
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		switch {
		case f.Markers.Has("unionDiscriminator"):
			all.discriminator, old.discriminator = name, name
		default:
			all.members[name] = f.Name
		}
		if f.Markers.Has("unionDeprecated") {
			old.members[name] = f.Name
		}
	}
	var found []union
	if g.API.Type(n.Decl).Markers.Has("union") {
		found = append(found, all)
	}
	found = append(found, embedded...)
	if len(old.members) > 0 {
		found = append(found, old)
	}
	return found
}

// unionExtension returns the extension's member as Go source, or "".
func unionExtension(list []union) string {
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\"x-kubernetes-unions\": []interface{}{\n")
	for _, u := range list {
		b.WriteString("map[string]interface{}{\n")
		if u.discriminator != "" {
			b.WriteString("\"discriminator\": " + strconv.Quote(u.discriminator) + ",\n")
		}
		b.WriteString("\"fields-to-discriminateBy\": map[string]interface{}{\n")
		for _, m := range slices.Sorted(maps.Keys(u.members)) {
			b.WriteString(strconv.Quote(m) + ": " + strconv.Quote(u.members[m]) + ",\n")
		}
		b.WriteString("},\n},\n")
	}
	b.WriteString("},\n")
	return b.String()
}
