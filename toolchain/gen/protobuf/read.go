package protobuf

import (
	"fmt"
	"strconv"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/loader"
)

// unmarshal generates the method Unmarshal.
func (g *generator) unmarshal(m *message) {
	g.Expand(`// Unmarshal decodes protobuf and merges it into the message. It ignores unknown fields.
func (m *$T) Unmarshal(data []byte) error {
	r := protoReader{data: data, message: "$T"}
	for r.next() {
		switch r.field {`, source.Vars{"T": m.typ.Name})
	for _, f := range m.fields {
		name, expr := f.goName, f.expr()
		if m.list {
			name, expr = "Items", "*m"
		}
		g.Printf("case %d:", f.number)
		switch {
		case f.repeated:
			g.readElement(f, expr, name)
		case f.kind == mapped:
			g.readMap(f, expr, name)
		default:
			g.readValue("r", &f.value, expr, name)
		}
	}
	g.Printf("default:\nr.skip()\n}\n}\nreturn r.err\n}\n")
}

// scalar returns the expression of a decoded value that is not a message.
func (g *generator) scalar(reader string, v *value, name string) string {
	vars := source.Vars{"t": g.Type(v.typ), "r": reader, "name": strconv.Quote(name)}
	switch v.kind {
	case varint:
		return g.Expanded("$t($r.varint($name))", vars)
	case boolean:
		return g.Expanded("$t($r.varint($name) != 0)", vars)
	case fixed32:
		return g.Expanded("$t($math.Float32frombits($r.fixed32($name)))", vars)
	case fixed64:
		return g.Expanded("$t($math.Float64frombits($r.fixed64($name)))", vars)
	case text:
		return g.Expanded("$t($r.bytes($name))", vars)
	}
	return g.Expanded("append($t{}, $r.bytes($name)...)", vars)
}

// readValue generates the decoding of a value that is not repeated.
func (g *generator) readValue(reader string, v *value, expr, name string) {
	switch {
	case v.kind == nested && v.pointer:
		g.Printf("if %[1]s == nil {\n%[1]s = new(%[2]s)\n}\n%[3]s.nested(%[4]q, %[1]s)", expr, g.Type(v.typ), reader,
			name)
	case v.kind == nested:
		g.Printf("%s.nested(%q, &%s)", reader, name, expr)
	case v.pointer:
		g.Printf("v := %s\n%s = &v", g.scalar(reader, v, name), expr)
	default:
		g.Printf("%s = %s", expr, g.scalar(reader, v, name))
	}
}

// readElement generates the decoding of a list's element, or of several packed numbers.
func (g *generator) readElement(f *field, expr, name string) {
	v := &f.value
	switch {
	case v.kind == nested && v.pointer:
		g.Printf("v := new(%s)\nr.nested(%q, v)\n%[3]s = append(%[3]s, v)", g.Type(v.typ), name, expr)
	case v.kind == nested:
		g.Printf("var v %s\nr.nested(%q, &v)\n%[3]s = append(%[3]s, v)", g.Type(v.typ), name, expr)
	case v.wire() == 2:
		g.Printf("%[1]s = append(%[1]s, %[2]s)", expr, g.scalar("r", v, name))
	default:
		g.Printf("if r.wire == 2 {\npacked := r.packed(%q, %d)\nfor packed.more() {\n%[3]s = append(%[3]s, %[4]s)\n}\nr.fail(packed.err)\n} else {\n%[3]s = append(%[3]s, %[5]s)\n}",
			name, v.wire(), expr, g.scalar("packed", v, name), g.scalar("r", v, name))
	}
}

// readMap generates the decoding of a map's entry.
func (g *generator) readMap(f *field, expr, name string) {
	m := f.value.typ.Underlying().(*loader.Map)
	zero := ""
	if f.val.kind == raw {
		zero = fmt.Sprintf(" = %s{}", g.Type(f.val.typ))
	}
	g.Printf("entry := protoReader{data: r.bytes(%q), message: r.message}\nvar key %s\nvar value %s%s\nfor entry.next() {\nswitch entry.field {\ncase 1:",
		name, g.Type(m.Key), g.Type(m.Elem), zero)
	g.readValue("entry", f.key, "key", name)
	g.Printf("case 2:")
	g.readValue("entry", f.val, "value", name)
	g.Printf("default:\nentry.skip()\n}\n}\nr.fail(entry.err)\nif %[1]s == nil {\n%[1]s = %[2]s{}\n}\n%[1]s[key] = value", expr, g.Type(f.value.typ))
}
