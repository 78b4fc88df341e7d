package openapi

import (
	"encoding/json"
	"fmt"
	"go/token"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"k8s.io/kube-openapi/pkg/common"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

// fail reports a field that has no schema.
func (g *generator) fail(f *model.Field, format string, args ...any) {
	g.errs = append(g.errs, loader.Errorf(f.Pos(), g.owner.Name+"."+f.Name+": "+format, args...))
}

// structure returns the members of a struct's schema as Go source, and the names of the definitions
// to which it refers.
func (g *generator) structure(n *loader.Named) (schema string, refs []string) {
	w := &writer{generator: g, refs: map[string]bool{}}
	t := g.API.Type(n.Decl)
	properties := w.members(n)
	var b strings.Builder
	b.WriteString("SchemaProps: §spec.SchemaProps{\n" + description(t.Doc) + "Type: []string{\"object\"},\n")
	if properties != "" {
		b.WriteString("Properties: map[string]§spec.Schema{\n" + properties + "},\n")
	}
	if len(w.required) > 0 {
		quoted := make([]string, len(w.required))
		for i, r := range w.required {
			quoted[i] = strconv.Quote(r)
		}
		b.WriteString("Required: []string{" + strings.Join(quoted, ", ") + "},\n")
	}
	b.WriteString("},\n" + extensions(t.Markers, "", g.unions(n)...))
	return b.String(), slices.Sorted(maps.Keys(w.refs))
}

// writer generates the schemas of a struct's fields.
type writer struct {
	*generator
	required []string
	refs     map[string]bool
	within   []*loader.Decl // structs that are being written inline, to detect recursion
}

// members returns the properties, including those of embedded structs.
func (w *writer) members(n *loader.Named) string {
	st, ok := n.Underlying().(*loader.Struct)
	if !ok || slices.Contains(w.within, n.Decl) {
		return ""
	}
	w.within = append(w.within, n.Decl)
	defer func() { w.within = w.within[:len(w.within)-1] }()
	var b strings.Builder
	for _, f := range w.API.Fields(n.Decl.Origin().Pkg, st) {
		if slices.ContainsFunc(f.Markers, func(m *marker.Marker) bool {
			return m.Name == "k8s:openapi-gen" && m.Text() == "false"
		}) {
			continue
		}
		tag, tagged := f.Tag.Lookup("json")
		name, opts, _ := strings.Cut(tag, ",")
		if f.Embedded && tagged && name == "" {
			if inner, ok := loader.Deref(f.Type()).(*loader.Named); ok {
				b.WriteString(w.members(inner))
			}
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		omit := slices.Contains(strings.Split(opts, ","), "omitempty")
		if f.Markers.Has("required") || !f.Markers.Has("optional") && !omit {
			w.required = append(w.required, name)
		}
		b.WriteString(strconv.Quote(name) + ": {\n" + extensions(f.Markers, f.Syntax.Tag.Value) +
			"SchemaProps: §spec.SchemaProps{\n")
		enum := w.enum(f.Type())
		b.WriteString(description(f.Doc + enum.doc()))
		if slices.Contains(strings.Split(opts, ","), "string") {
			b.WriteString("Type: []string{\"string\"},\nFormat: \"\",\n")
		} else {
			b.WriteString(w.defaultOf(f, omit) + w.value(f, f.Type()))
		}
		b.WriteString("},\n},\n")
	}
	return b.String()
}

// value returns the members of the schema of a type.
func (w *writer) value(f *model.Field, t loader.Type) string {
	t = loader.Deref(t)
	if n, ok := t.(*loader.Named); ok {
		if typ, format := common.OpenAPITypeFormat(n.String()); typ != "" { // such as time.Time
			return fmt.Sprintf("Type: []string{%q},\nFormat: %q,\n", typ, format)
		}
	}
	switch u := t.Underlying().(type) {
	case *loader.Basic:
		typ, format := common.OpenAPITypeFormat(u.Name)
		if typ == "" {
			w.fail(f, "%s has no schema", u.Name)
			return ""
		}
		return fmt.Sprintf("Type: []string{%q},\nFormat: %q,\n", typ, format) + w.enum(t).values()
	case *loader.Pointer:
		return w.value(f, u)
	case *loader.Slice:
		if b, ok := u.Elem.(*loader.Basic); ok && b.IsByte() {
			return "Type: []string{\"string\"},\nFormat: \"byte\",\n"
		}
		return w.list(f, u.Elem)
	case *loader.Array:
		return w.list(f, u.Elem)
	case *loader.Map:
		if key, ok := u.Key.Underlying().(*loader.Basic); !ok || key.Name != "string" {
			w.fail(f, "a map's keys are strings, not %s", u.Key)
			return ""
		}
		return "Type: []string{\"object\"},\nAdditionalProperties: &§spec.SchemaOrBool{\nAllows: true,\nSchema: &§spec.Schema{\nSchemaProps: §spec.SchemaProps{\n" +
			w.value(f, u.Elem) + "},\n},\n},\n"
	case *loader.Struct:
		n, ok := t.(*loader.Named)
		if !ok {
			w.fail(f, "a struct without a name has no definition; name it")
			return ""
		}
		if len(n.Args) > 0 || n.Decl.Alias {
			return w.inline(n)
		}
		w.want(n)
		w.refs[strconv.Quote(w.name(n))] = true
		return fmt.Sprintf("Ref: ref(%q),\n", w.name(n))
	case *loader.Interface:
		if typ, format := common.OpenAPITypeFormat("interface{}"); typ != "" {
			return fmt.Sprintf("Type: []string{%q},\nFormat: %q,\n", typ, format)
		}
		return ""
	case *loader.Invalid:
		w.errs = append(w.errs, u.Err)
		return ""
	}
	w.fail(f, "%s has no schema", t)
	return ""
}

func (w *writer) list(f *model.Field, elem loader.Type) string {
	return "Type: []string{\"array\"},\nItems: &§spec.SchemaOrArray{\nSchema: &§spec.Schema{\nSchemaProps: §spec.SchemaProps{\n" + w.value(f, elem) + "},\n},\n},\n"
}

// inline returns the schema of an instance of a generic type, written out in place.
func (w *writer) inline(n *loader.Named) string {
	inner := &writer{generator: w.generator, refs: w.refs, within: w.within}
	out := "Type: []string{\"object\"},\nProperties: map[string]§spec.Schema{\n" + inner.members(n) + "},\n"
	if len(inner.required) > 0 {
		out += fmt.Sprintf("Required: %#v,\n", inner.required)
	}
	return out
}

// defaultOf returns the default of a field: from its markers, or the zero value if Go cannot omit
// the field.
func (w *writer) defaultOf(f *model.Field, omit bool) string {
	var value any
	m := f.Markers.Get("default")
	if m != nil {
		value = m.Value
	}
	enforced := w.enforced(f.Type(), omit)
	switch {
	case m != nil && m.Value == nil:
		ref := strings.TrimSuffix(strings.TrimPrefix(m.Raw, "ref("), ")")
		if i := strings.LastIndexByte(ref, '.'); i >= 0 {
			path := ref[:i]
			return fmt.Sprintf("Default: %s,\n", w.Qualified(path, path[strings.LastIndexByte(path, '/')+1:],
				ref[i+1:]))
		}
		return fmt.Sprintf("Default: %s,\n", w.Qualified(w.owner.Pkg.Path, w.owner.Pkg.Name, ref))
	case value == nil && enforced == nil:
		return ""
	case value == nil:
		value = enforced
	case enforced != nil && !sameJSON(value, enforced):
		w.fail(f, "+default=%s on a field that is neither a pointer nor omitempty can never take effect", m.Raw)
		return ""
	}
	return fmt.Sprintf("Default: %s,\n", literal(value))
}

func sameJSON(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// literal returns a JSON value as Go source.
func literal(v any) string {
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil {
			return fmt.Sprintf("%#v", f)
		}
	case map[string]any:
		parts := []string{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, strconv.Quote(k)+": "+literal(v[k]))
		}
		return "map[string]interface{}{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := []string{}
		for _, e := range v {
			parts = append(parts, literal(e))
		}
		return "[]interface{}{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprintf("%#v", v)
}

// enforced returns the JSON value of an unset field, or nil if it is null or omitted.
func (w *writer) enforced(t loader.Type, omit bool) any {
	if m := loader.FindMethod(t, "UnmarshalJSON"); m != nil {
		return nil
	}
	switch u := t.Underlying().(type) {
	case *loader.Struct:
		if len(u.Fields) == 1 && u.Fields[0].Embedded {
			return w.enforced(u.Fields[0].Type(), omit)
		}
		return map[string]any{}
	case *loader.Basic:
		if omit {
			return nil
		}
		if zero, ok := common.OpenAPIZeroValue(u.Name); ok {
			return zero
		}
	}
	return nil
}

// extensions returns x-kubernetes-… members, from markers or else from the field's tag.
func extensions(ms marker.Markers, tag string, unions ...union) string {
	values := map[string][]string{}
	named := map[string]string{"listType": "x-kubernetes-list-type", "listMapKey": "x-kubernetes-list-map-keys",
		"mapType":    "x-kubernetes-map-type",
		"structType": "x-kubernetes-map-type", "patchStrategy": "x-kubernetes-patch-strategy",
		"patchMergeKey": "x-kubernetes-patch-merge-key"}
	for _, m := range ms {
		if x := named[m.Name]; x != "" {
			values[x] = append(values[x], m.Text())
		}
		if m.Name == "k8s:openapi-gen" && strings.HasPrefix(m.Text(), "x-") {
			x, v, _ := strings.Cut(m.Text(), ":")
			values[x] = append(values[x], v)
		}
	}
	for _, key := range []string{"patchStrategy", "patchMergeKey"} {
		if unquoted, err := strconv.Unquote(tag); err == nil && values[named[key]] == nil {
			if v := reflect.StructTag(unquoted).Get(key); v != "" {
				values[named[key]] = []string{v}
			}
		}
	}
	if len(values)+len(unions) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("VendorExtensible: §spec.VendorExtensible{\nExtensions: §spec.Extensions{\n")
	for _, x := range slices.Sorted(maps.Keys(values)) {
		if v := values[x]; len(v) > 1 || x == "x-kubernetes-list-map-keys" {
			fmt.Fprintf(&b, "%q: []interface{}{", x)
			for _, e := range v {
				fmt.Fprintf(&b, "%q, ", e)
			}
			b.WriteString("},\n")
		} else {
			fmt.Fprintf(&b, "%q: %q,\n", x, v[0])
		}
	}
	b.WriteString(unionExtension(unions) + "},\n},\n")
	return b.String()
}

// enum holds the values of a string type marked +enum.
type enum []enumValue

type enumValue struct{ value, comment string }

func (w *writer) enum(t loader.Type) enum {
	n, ok := loader.Deref(t).(*loader.Named)
	if !ok || !w.API.Type(n.Decl).Markers.Has("enum") {
		return nil
	}
	var e enum
	for _, c := range n.Decl.Pkg.Consts() {
		if c.Type != n.Decl.Name || c.Kind != token.STRING {
			continue
		}
		v, err := strconv.Unquote(c.Value)
		if err != nil {
			continue
		}
		comment := ""
		if c.Doc != nil {
			comment = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(c.Doc.Text()), c.Name))
		}
		e = append(e, enumValue{v, spaces.ReplaceAllString(comment, " ")})
	}
	return e
}

var spaces = regexp.MustCompile(`\s+`)

// doc describes the values, as an appendix to the field's own documentation.
func (e enum) doc() string {
	if len(e) == 0 {
		return ""
	}
	lines := make([]string, len(e))
	for i, v := range e {
		lines[i] = fmt.Sprintf(" - `%q` %s", v.value, v.comment)
	}
	sort.Strings(lines)
	return "\n\nPossible enum values:\n" + strings.Join(lines, "\n")
}

// values returns the schema's member Enum.
func (e enum) values() string {
	if len(e) == 0 {
		return ""
	}
	list := make([]string, len(e))
	for i, v := range e {
		list[i] = strconv.Quote(v.value)
	}
	sort.Strings(list)
	return "Enum: []interface{}{" + strings.Join(list, ", ") + "},\n"
}
