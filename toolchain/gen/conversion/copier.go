package conversion

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"kelson.dev/toolchain/loader"
)

// copier generates the statements for one field. If the field cannot be converted, why is the first
// reason.
type copier struct {
	*generator
	b     strings.Builder
	why   string
	depth int
}

func (c *copier) linef(format string, args ...any) { fmt.Fprintf(&c.b, format+"\n", args...) }

func (c *copier) fail(from, to loader.Type) {
	if c.why == "" {
		c.why = fmt.Sprintf("%s does not convert to %s by itself", short(from), short(to))
	}
}

// short returns the string of a type with only the last elements of import paths.
func short(t loader.Type) string {
	return parents.ReplaceAllString(t.String(), "")
}

// parents matches the elements of an import path before the last one.
var parents = regexp.MustCompile(`[^][*, ]*/`)

// value generates the conversion of the expression in to the variable out.
func (c *copier) value(in, out string, from, to loader.Type) {
	if bad, ok := from.Underlying().(*loader.Invalid); ok {
		c.why = bad.Err.Error()
		return
	}
	if from.String() == to.String() && named(from) { // one type, used by both versions
		c.linef("%s = %s", out, in)
		return
	}
	if call := c.call(from, to); call != "" {
		c.linef("if err := %s(&%s, &%s, s); err != nil {\nreturn err\n}", call, in, out)
		return
	}
	switch f := from.Underlying().(type) {
	case *loader.Basic:
		t, ok := to.Underlying().(*loader.Basic)
		switch {
		case !ok || f.Name != t.Name && !(f.IsByte() && t.IsByte()):
			c.fail(from, to)
		case from.String() == to.String():
			c.linef("%s = %s", out, in)
		default:
			c.linef("%s = %s(%s)", out, c.Type(to), in)
		}
	case *loader.Pointer:
		t, ok := to.Underlying().(*loader.Pointer)
		if !ok {
			c.fail(from, to)
			return
		}
		if c.same(f.Elem, t.Elem) {
			c.linef("%s = %s", out, in)
			return
		}
		a, b := c.names()
		c.linef("if %s != nil {\n%s, %s := &%s, &%s\n*%s = new(%s)", in, a, b, in, out, b, c.Type(t.Elem))
		c.value("(**"+a+")", "(**"+b+")", f.Elem, t.Elem)
		c.linef("} else {\n%s = nil\n}", out)
	case *loader.Slice:
		t, ok := to.Underlying().(*loader.Slice)
		if !ok {
			c.fail(from, to)
			return
		}
		if c.same(f.Elem, t.Elem) {
			c.assign(in, out, from, to)
			return
		}
		a, b := c.names()
		i := fmt.Sprintf("i%d", c.depth)
		c.linef("if %s != nil {\n%s, %s := &%s, &%s\n*%s = make(%s, len(*%s))\nfor %s := range *%s {", in, a, b, in,
			out, b, c.Type(to), a, i, a)
		c.value("(*"+a+")["+i+"]", "(*"+b+")["+i+"]", f.Elem, t.Elem)
		c.linef("}\n} else {\n%s = nil\n}", out)
	case *loader.Map:
		t, ok := to.Underlying().(*loader.Map)
		if !ok {
			c.fail(from, to)
			return
		}
		if c.same(f.Elem, t.Elem) && c.same(f.Key, t.Key) {
			c.assign(in, out, from, to)
			return
		}
		a, b := c.names()
		k, v := fmt.Sprintf("key%d", c.depth), fmt.Sprintf("value%d", c.depth)
		c.linef("if %s != nil {\n%s, %s := &%s, &%s\n*%s = make(%s, len(*%s))\nfor %s, %s := range *%s {", in, a, b, in,
			out, b, c.Type(to), a, k, v, a)
		c.linef("var newKey%s %s\nvar newValue%s %s", k, c.Type(t.Key), v, c.Type(t.Elem))
		c.value(k, "newKey"+k, f.Key, t.Key)
		c.value(v, "newValue"+v, f.Elem, t.Elem)
		c.linef("(*%s)[newKey%s] = newValue%s\n}\n} else {\n%s = nil\n}", b, k, v, out)
	case *loader.Array:
		t, ok := to.Underlying().(*loader.Array)
		if !ok || f.Len != t.Len {
			c.fail(from, to)
			return
		}
		c.depth++
		i := fmt.Sprintf("i%d", c.depth)
		c.linef("for %s := range %s {", i, in)
		c.value(in+"["+i+"]", out+"["+i+"]", f.Elem, t.Elem)
		c.linef("}")
	case *loader.Struct:
		t, ok := to.Underlying().(*loader.Struct)
		if !ok || !generic(from, to) {
			c.fail(from, to)
			return
		}
		for _, field := range f.Fields { // a generic type with other arguments
			var other *loader.Field
			for _, o := range t.Fields {
				if o.Name == field.Name {
					other = o
				}
			}
			if other == nil {
				c.fail(from, to)
				return
			}
			c.value(in+"."+field.Name, out+"."+field.Name, field.Type(), other.Type())
		}
	default:
		c.fail(from, to)
	}
}

// generic reports whether both are instances of one generic type.
func generic(from, to loader.Type) bool {
	a, ok1 := from.(*loader.Named)
	b, ok2 := to.(*loader.Named)
	return ok1 && ok2 && a.Decl == b.Decl && len(a.Args) > 0
}

// names returns the variables of the next level of nesting.
func (c *copier) names() (in, out string) {
	c.depth++
	return fmt.Sprintf("in%d", c.depth), fmt.Sprintf("out%d", c.depth)
}

// assign generates an assignment, so that both share the list or map.
func (c *copier) assign(in, out string, from, to loader.Type) {
	if from.String() == to.String() || !named(from) || !named(to) {
		c.linef("%s = %s", out, in)
		return
	}
	c.linef("%s = %s(%s)", out, c.Type(to), in)
}

func named(t loader.Type) bool {
	_, ok := t.(*loader.Named)
	return ok
}

// same reports whether two types are identical, so that values can be shared.
func (c *copier) same(from, to loader.Type) bool {
	if from.String() != to.String() {
		return false
	}
	switch t := from.(type) {
	case *loader.Struct, *loader.Interface:
		return false // the conversion of such a type is written inline
	case *loader.Pointer:
		return c.same(t.Elem, to.(*loader.Pointer).Elem)
	case *loader.Slice:
		return c.same(t.Elem, to.(*loader.Slice).Elem)
	case *loader.Map:
		return c.same(t.Elem, to.(*loader.Map).Elem)
	}
	return true
}

// pointers are the types that metav1 converts to pointers and back, as conversion-gen does. A nil
// pointer becomes the zero value.
var pointers = []string{"bool", "float64", "int32", "int64", "string", metaPath + ".Duration",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString"}

// call returns the function that converts two types: a hand-written one, one of metav1, or a
// generated one. Hand-written ones may be in a package of the types, or of another spoke.
func (c *copier) call(from, to loader.Type) string {
	name, packages := c.function(from, to), c.own()
	a, ok1 := from.(*loader.Named)
	b, ok2 := to.(*loader.Named)
	if ok1 && ok2 {
		packages = append(packages, a.Decl.Pkg, b.Decl.Pkg)
	}
	var generated *loader.Package
	for _, s := range c.spokes {
		between := ok1 && ok2 && (a.Decl.Pkg == s.types && b.Decl.Pkg == s.hub ||
			a.Decl.Pkg == s.hub && b.Decl.Pkg == s.types)
		packages = append(packages, s.functions)
		if between && generated == nil && len(a.Args)+len(b.Args) == 0 && a.Decl.Name == b.Decl.Name &&
			s.pairs[a.Decl.Name] {
			generated = s.functions
		}
	}
	if f := c.byHand(from, to, packages...); f != nil {
		return c.Qualified(f.Pkg.Path, f.Pkg.Name, name)
	}
	if x, y := from.String(), to.String(); x == "*"+y && slices.Contains(pointers, y) ||
		y == "*"+x && slices.Contains(pointers, x) {
		return c.Expanded("$metav1.", nil) + name
	}
	if generated != nil {
		return c.Qualified(generated.Path, generated.Name, name)
	}
	return ""
}
