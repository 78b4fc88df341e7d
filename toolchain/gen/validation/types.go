package validation

import (
	"fmt"
	"strconv"
	"strings"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/model"
)

// native returns a type without the names of declared types, including those below pointers. The
// elements of lists and maps keep their types.
func native(t loader.Type) loader.Type {
	switch t := t.(type) {
	case *loader.Named:
		return native(t.Underlying())
	case *loader.Pointer:
		return &loader.Pointer{Elem: native(t.Elem)}
	}
	return t
}

// valueType returns the native type of a value, or of the value that a pointer points to.
func valueType(t loader.Type) loader.Type {
	t = native(t)
	for {
		p, ok := t.(*loader.Pointer)
		if !ok {
			return t
		}
		t = p.Elem
	}
}

func isPointer(t loader.Type) bool { _, ok := native(t).(*loader.Pointer); return ok }
func isSlice(t loader.Type) bool   { _, ok := native(t).(*loader.Slice); return ok }
func isMap(t loader.Type) bool     { _, ok := native(t).(*loader.Map); return ok }

// element returns the type of the elements of a list or map, or nil.
func element(t loader.Type) loader.Type {
	switch t := native(t).(type) {
	case *loader.Slice:
		return t.Elem
	case *loader.Map:
		return t.Elem
	}
	return nil
}

// basic returns the name of the basic type of a value, or "".
func basic(t loader.Type) string {
	if b, ok := valueType(t).(*loader.Basic); ok {
		return b.Name
	}
	return ""
}

// structOf returns the struct of a value or of a pointer's target, or nil.
func structOf(t loader.Type) *loader.Struct {
	st, _ := valueType(t).(*loader.Struct)
	return st
}

// named returns the declared type of a value or of a pointer's target, or nil.
func named(t loader.Type) *loader.Named {
	n, _ := loader.Deref(t).(*loader.Named)
	return n
}

// nilable reports whether values of the type can be nil.
func nilable(t loader.Type) bool {
	switch native(t).(type) {
	case *loader.Pointer, *loader.Map, *loader.Slice, *loader.Interface:
		return true
	}
	return false
}

// isComparable reports whether == compares values of the type completely.
func isComparable(t loader.Type) bool {
	switch t := t.(type) {
	case *loader.Basic:
		return t.Name != "error"
	case *loader.Named:
		return isComparable(t.Underlying())
	case *loader.Array:
		return isComparable(t.Elem)
	case *loader.Struct:
		for _, f := range t.Fields {
			if !isComparable(f.Type()) {
				return false
			}
		}
		return true
	}
	return false
}

// bits returns the size of an integer type and whether it is unsigned; 0 means another type.
func bits(t loader.Type) (size int, unsigned bool) {
	switch name := basic(t); name {
	case "int", "uint":
		return 64, name == "uint"
	case "byte":
		return 8, true
	case "rune":
		return 32, false
	case "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64":
		digits := strings.TrimLeft(name, "uint")
		size, _ = strconv.Atoi(digits)
		return size, name[0] == 'u'
	}
	return 0, false
}

// integer returns a number as Go source, or an error if it is not a value of the type.
func integer(t loader.Type, text string) (string, error) {
	size, unsigned := bits(t)
	var err error
	switch {
	case size == 0:
		return "", fmt.Errorf("applies to integers, not to %s", t)
	case unsigned:
		_, err = strconv.ParseUint(text, 10, size)
	default:
		_, err = strconv.ParseInt(text, 10, size)
	}
	if err != nil {
		return "", fmt.Errorf("%q is not a value of %s", text, t)
	}
	return text, nil
}

// jsonName returns the name of a field in JSON, or "" for an inline field.
func jsonName(f *model.Field) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" && !f.Embedded {
		return f.Name
	}
	return name
}

// address returns an expression of the nilForm of a field.
func address(owner string, f *model.Field) string {
	if nilable(f.Type()) {
		return owner + "." + f.Name
	}
	return "&" + owner + "." + f.Name
}

// fields returns the fields of a struct type with their markers.
func (md *metadata) fields(t loader.Type) []*model.Field {
	n := named(t)
	if n == nil {
		return nil
	}
	st := structOf(n)
	if st == nil {
		return nil
	}
	return md.api.Fields(n.Decl.Origin().Pkg, st)
}

// fieldByJSON returns the field of a struct with a JSON name, or nil.
func (md *metadata) fieldByJSON(t loader.Type, name string) *model.Field {
	for _, f := range md.fields(t) {
		if jsonName(f) == name {
			return f
		}
	}
	return nil
}
