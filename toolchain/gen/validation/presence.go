package validation

import (
	"encoding/json"
	"fmt"
	"strings"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

// form returns the suffix of the functions that decide whether a value of a type is set.
func form(t loader.Type) (string, error) {
	switch native(t).(type) {
	case *loader.Slice:
		return "Slice", nil
	case *loader.Map:
		return "Map", nil
	case *loader.Pointer:
		return "Pointer", nil
	case *loader.Struct:
		return "", fmt.Errorf("does not apply to structs without a pointer, which are always set")
	}
	return "Value", nil
}

// presence returns the rules of required, optional and forbidden fields.
func (rc *ruleCompiler) presence(p place, m *marker.Marker) (rules, error) {
	suffix, err := form(p.typ)
	if err != nil {
		return rules{}, err
	}
	rule := func(what string, silent bool) call {
		c := rc.code.lib(what + suffix)
		c.short, c.silent = true, silent
		return c
	}
	switch m.Name {
	case "k8s:required":
		return one(rule("Required", false)), nil
	case "k8s:forbidden":
		// If the field is not set, the second call ends its validation.
		return rules{calls: []call{rule("Forbidden", false), rule("Optional", true)}}, nil
	}
	d := p.field.Markers.Get("default")
	if d == nil {
		return one(rule("Optional", true)), nil
	}
	if !nilable(p.typ) {
		zero, err := zeroDefault(d)
		if err != nil {
			return rules{}, err
		}
		if zero {
			return rules{}, nil // a zero value counts as not set
		}
	}
	c := rule("Required", false)
	c.comments = []string{"The server sets the default, so the field is required here."}
	return one(c), nil
}

// zeroDefault reports whether a default is the zero value of its type.
func zeroDefault(d *marker.Marker) (bool, error) {
	switch v := d.Value.(type) {
	case string:
		return v == "", nil
	case bool:
		return !v, nil
	case json.Number:
		f, err := v.Float64()
		return f == 0, err
	}
	return false, fmt.Errorf("cannot be combined with +default=%s: whether that is the zero value is unknown; use a pointer", d.Raw)
}

// isSet returns the function that reports whether a field of a struct is set.
func (rc *ruleCompiler) isSet(owner loader.Type, f *model.Field) (string, error) {
	test := "len(obj." + f.Name + ") != 0"
	switch native(f.Type()).(type) {
	case *loader.Pointer, *loader.Interface:
		test = "obj." + f.Name + " != nil"
	case *loader.Slice, *loader.Map:
	case *loader.Basic:
		test = map[string]string{"string": "obj." + f.Name + ` != ""`,
			"bool": "bool(obj." + f.Name + ")"}[basic(f.Type())]
		if test == "" {
			test = "obj." + f.Name + " != 0"
		}
	default:
		return "", fmt.Errorf("does not apply to structs without a pointer, which are always set: %s", f.Name)
	}
	return fmt.Sprintf("func(obj %s) bool { return obj != nil && %s }", rc.code.nilForm(owner), test), nil
}

// dependent returns the rule of a field that requires or forbids another one.
func (rc *ruleCompiler) dependent(p place, m *marker.Marker) (rules, error) {
	name := m.String("")
	other := rc.meta.fieldByJSON(p.parent, name)
	switch {
	case other == nil:
		return rules{}, fmt.Errorf("names the field %q, which %s does not have", name, p.parent)
	case other.Name == p.field.Name:
		return rules{}, fmt.Errorf("names the field itself")
	}
	trigger, err := rc.isSet(p.parent, p.field)
	if err != nil {
		return rules{}, err
	}
	dependent, err := rc.isSet(p.parent, other)
	if err != nil {
		return rules{}, err
	}
	fn := "Dependent" + strings.TrimPrefix(m.Name, "k8s:dependent")
	return rules{parent: []call{rc.code.lib(fn, fmt.Sprintf("%q", jsonName(p.field)), trigger, fmt.Sprintf("%q", name),
		dependent)}}, nil
}
