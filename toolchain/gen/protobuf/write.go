package protobuf

import (
	"fmt"
	"slices"

	"kelson.dev/toolchain/gen/source"
)

// methods generates the methods of a message.
func (g *generator) methods(m *message) {
	vars := source.Vars{"T": m.typ.Name, "recv": "*" + m.typ.Name, "zero": m.typ.Name + "{}"}
	if m.list {
		vars["recv"], vars["zero"] = m.typ.Name, "nil"
	}
	g.Expand(`// Reset sets the message to its zero value.
func (m *$T) Reset() { *m = $zero }

// Marshal encodes the message as protobuf.
func (m $recv) Marshal() ([]byte, error) {
	b := make([]byte, m.Size())
	n, err := m.MarshalToSizedBuffer(b)
	if err != nil {
		return nil, err
	}
	return b[len(b)-n:], nil
}

// MarshalTo encodes the message to the beginning of a buffer of at least Size bytes and returns the number of bytes.
func (m $recv) MarshalTo(b []byte) (int, error) {
	return m.MarshalToSizedBuffer(b[:m.Size()])
}

// MarshalToSizedBuffer encodes the message to the end of a buffer of at least Size bytes and returns the number of bytes.
func (m $recv) MarshalToSizedBuffer(b []byte) (int, error) {
	i := len(b)`, vars)
	for _, f := range slices.Backward(m.fields) {
		g.write(f, f.expr())
	}
	g.Printf("return len(b) - i, nil\n}\n")
	g.Expand(`// Size returns the number of bytes of the encoded message.
func (m $recv) Size() (n int) {`, vars)
	if !m.list {
		g.Printf("if m == nil {\nreturn 0\n}")
	}
	for _, f := range m.fields {
		g.size(f, f.expr())
	}
	g.Printf("return n\n}\n")
	g.unmarshal(m)
}

// expr returns the expression of a field.
func (f *field) expr() string {
	if f.goName == "" {
		return "m"
	}
	return "m." + f.goName
}

// tag is the number and wire type of a field, as encoded.
func tag(number, wire int) int { return number<<3 | wire }

// tagSize returns the number of bytes of a tag.
func tagSize(number int) int {
	n := 1
	for t := number << 3; t >= 0x80; t >>= 7 {
		n++
	}
	return n
}

// write generates the encoding of a field, from its end.
func (g *generator) write(f *field, expr string) {
	switch {
	case f.repeated:
		g.Printf("for n := len(%s) - 1; n >= 0; n-- {", expr)
		g.writeValue(&f.value, expr+"[n]", f.number)
		g.Printf("}")
	case f.kind == mapped:
		g.writeMap(f, expr)
	case f.optional():
		g.Printf("if %s != nil {", expr)
		g.writeValue(&f.value, expr, f.number)
		g.Printf("}")
	default:
		g.writeValue(&f.value, expr, f.number)
	}
}

// optional reports whether the value can be nil, which is not encoded.
func (v *value) optional() bool { return v.pointer || v.kind == raw }

// deref returns the expression of the value itself.
func (v *value) deref(expr string) string {
	if v.pointer && v.kind != nested {
		return "*" + expr
	}
	return expr
}

func (g *generator) writeValue(v *value, expr string, number int) {
	x := v.deref(expr)
	switch v.kind {
	case varint:
		g.Printf("i = putProtoVarint(b, i, uint64(%s))", x)
	case boolean:
		g.Printf("i--\nb[i] = 0\nif %s {\nb[i] = 1\n}", x)
	case fixed32:
		g.Expand("i -= 4\n$binary.LittleEndian.PutUint32(b[i:], $math.Float32bits(float32($x)))", source.Vars{"x": x})
	case fixed64:
		g.Expand("i -= 8\n$binary.LittleEndian.PutUint64(b[i:], $math.Float64bits(float64($x)))", source.Vars{"x": x})
	case text, raw:
		g.Printf("i -= len(%[1]s)\ncopy(b[i:], %[1]s)\ni = putProtoVarint(b, i, uint64(len(%[1]s)))", x)
	case nested:
		g.Printf("{\nsize, err := %s.MarshalToSizedBuffer(b[:i])\nif err != nil {\nreturn 0, err\n}\ni = putProtoVarint(b, i-size, uint64(size))\n}", x)
	}
	g.Printf("i = putProtoVarint(b, i, %#x)", tag(number, v.wire()))
}

func (g *generator) writeMap(f *field, expr string) {
	g.Expand(`for _, key := range $slices.Backward($slices.Sorted($maps.Keys($x))) {
	value, end := $x[key], i`, source.Vars{"x": expr})
	if f.val.optional() {
		g.Printf("if value != nil {")
	}
	g.writeValue(f.val, "value", 2)
	if f.val.optional() {
		g.Printf("}")
	}
	g.writeValue(f.key, "key", 1)
	g.Printf("i = putProtoVarint(b, i, uint64(end-i))\ni = putProtoVarint(b, i, %#x)\n}", tag(f.number, 2))
}

// size generates the size of a field.
func (g *generator) size(f *field, expr string) {
	tagged := tagSize(f.number)
	switch fixed := f.fixed(); {
	case f.repeated && fixed != "":
		g.Printf("n += len(%s) * (%d + %s)", expr, tagged, fixed)
	case f.repeated:
		g.Printf("for i := range %s {\nn += %d + %s\n}", expr, tagged, f.sizeOf(expr+"[i]"))
	case f.kind == mapped:
		value := "value"
		if f.val.fixed() != "" {
			value = "_"
		}
		g.Printf("for key, %s := range %s {", value, expr)
		if f.val.optional() {
			g.Printf("entry := 1 + %s\nif value != nil {\nentry += 1 + %s\n}", f.key.sizeOf("key"),
				f.val.sizeOf("value"))
		} else {
			g.Printf("entry := 2 + %s + %s", f.key.sizeOf("key"), f.val.sizeOf("value"))
		}
		g.Printf("n += %d + sizeProtoBytes(entry)\n}", tagged)
	case f.optional():
		g.Printf("if %s != nil {\nn += %d + %s\n}", expr, tagged, f.sizeOf(expr))
	default:
		g.Printf("n += %d + %s", tagged, f.sizeOf(expr))
	}
}

// fixed returns the size of values whose size does not depend on them, or "".
func (v *value) fixed() string {
	switch v.kind {
	case boolean:
		return "1"
	case fixed32:
		return "4"
	case fixed64:
		return "8"
	}
	return ""
}

// sizeOf returns an expression for the size of a value without its tag.
func (v *value) sizeOf(expr string) string {
	x := v.deref(expr)
	switch v.kind {
	case varint:
		return fmt.Sprintf("sizeProtoVarint(uint64(%s))", x)
	case text, raw:
		return fmt.Sprintf("sizeProtoBytes(len(%s))", x)
	case nested:
		return fmt.Sprintf("sizeProtoBytes(%s.Size())", x)
	}
	return v.fixed()
}
