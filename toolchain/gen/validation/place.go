package validation

import (
	"fmt"
	"strings"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

// scope is the kind of value that a marker applies to.
type scope string

const (
	onType    scope = "a type"
	onField   scope = "a field"
	onElement scope = "an element of a list"
	onValue   scope = "a value of a map"
	onKey     scope = "a key of a map"
)

// place is the value or part of a value to which a marker applies.
type place struct {
	scope scope
	typ   loader.Type // of the value
	// path identifies the value within its package: the type, JSON names, and the steps of markers
	// that apply to a part of the value.
	path  string
	field *model.Field // on a field
	// The struct around a field, or the list or map around an element.
	parent     loader.Type
	parentPath string
	selector   []term // of +k8s:item
	level      string // of +k8s:alpha and +k8s:beta around the marker
}

// term is a key of the element that +k8s:item selects.
type term struct {
	field *model.Field
	name  string // in JSON
	value string // as Go source
}

func typePlace(n *loader.Named) place { return place{scope: onType, typ: n, path: n.String()} }

func fieldPlace(owner *loader.Named, f *model.Field) place {
	name := jsonName(f)
	if name == "" {
		name = f.Name
	}
	return place{scope: onField, typ: f.Type(), path: owner.String() + "." + name, field: f, parent: owner,
		parentPath: owner.String()}
}

// inner returns the place of the marker that another marker has as its value.
func (md *metadata) inner(p place, m *marker.Marker) (place, error) {
	switch m.Name {
	case "k8s:alpha", "k8s:beta":
		p.level = strings.ToUpper(m.Name[4:5]) + m.Name[5:]
		return p, nil
	case "k8s:eachVal":
		in := place{typ: element(p.typ), path: p.path + "[vals]", parent: p.typ, parentPath: p.path, level: p.level}
		switch {
		case isSlice(p.typ):
			in.scope = onElement
		case isMap(p.typ):
			in.scope = onValue
		default:
			return p, fmt.Errorf("applies to lists and maps, not to %s", p.typ)
		}
		return in, nil
	case "k8s:eachKey":
		m, ok := native(p.typ).(*loader.Map)
		if !ok {
			return p, fmt.Errorf("applies to maps, not to %s", p.typ)
		}
		return place{scope: onKey, typ: m.Key, path: p.path + "[keys]", parent: p.typ, parentPath: p.path,
			level: p.level}, nil
	case "k8s:subfield":
		return md.subfieldPlace(p, m)
	case "k8s:item":
		return md.itemPlace(p, m)
	}
	return p, nil
}

func (md *metadata) subfieldPlace(p place, m *marker.Marker) (place, error) {
	for in := payload(m); in != nil; in = payload(in) {
		if in.Name == "k8s:subfield" {
			return p, fmt.Errorf("cannot contain another +k8s:subfield; declare the rule on the type of the field")
		}
	}
	if structOf(p.typ) == nil || named(p.typ) == nil {
		return p, fmt.Errorf("applies to structs, not to %s", p.typ)
	}
	name := m.String("")
	f := md.fieldByJSON(p.typ, name)
	if f == nil {
		return p, fmt.Errorf("names the field %q, which %s does not have", name, p.typ)
	}
	return place{scope: onField, typ: f.Type(), path: p.path + "." + name, field: f, parent: p.typ, parentPath: p.path,
		level: p.level}, nil
}

func (md *metadata) itemPlace(p place, m *marker.Marker) (place, error) {
	elem := element(p.typ)
	if !isSlice(p.typ) || structOf(elem) == nil || named(elem) == nil {
		return p, fmt.Errorf("applies to lists of structs, not to %s", p.typ)
	}
	in := place{scope: onElement, typ: named(elem), parent: p.typ, parentPath: p.path, level: p.level}
	var names []string
	for _, name := range m.ArgNames() {
		f := md.fieldByJSON(elem, name)
		if f == nil {
			return p, fmt.Errorf("names the key %q, which %s does not have", name, elem)
		}
		value, err := literal(f.Type(), m.String(name))
		if err != nil {
			return p, fmt.Errorf("key %s: %w", name, err)
		}
		in.selector = append(in.selector, term{field: f, name: name, value: value})
		names = append(names, fmt.Sprintf("%q: %s", name, value))
	}
	if len(names) == 0 {
		return p, fmt.Errorf("needs the keys of the element in parentheses")
	}
	in.path = p.path + "[{" + strings.Join(names, ", ") + "}]"
	return in, nil
}

// payload returns the marker that is the value of a marker, or nil.
func payload(m *marker.Marker) *marker.Marker {
	in, _ := m.Value.(*marker.Marker)
	return in
}

// literal returns the value of a marker's argument as Go source of a basic type.
func literal(t loader.Type, text string) (string, error) {
	switch name := basic(t); name {
	case "string":
		return fmt.Sprintf("%q", text), nil
	case "bool":
		if text != "true" && text != "false" {
			return "", fmt.Errorf("%q is not true or false", text)
		}
		return text, nil
	}
	return integer(t, text)
}
