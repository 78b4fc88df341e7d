package fieldlabels

import (
	"reflect"
	"strings"
)

// member is a member of an object in JSON.
type member struct {
	value               reflect.Value
	omitEmpty, omitZero bool
	absent              bool // not present
	set                 bool // present as an element of a map
}

// find returns a struct's field by its JSON name, or a map's element.
func find(v reflect.Value, name string) (member, bool) {
	switch v.Kind() {
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return member{}, false
		}
		if e := v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key())); e.IsValid() {
			return member{value: e, set: true}, true
		}
		return member{value: reflect.Zero(v.Type().Elem()), absent: true}, true
	case reflect.Interface:
		if v.IsNil() {
			return member{value: v, absent: true}, true
		}
		return find(v.Elem(), name)
	case reflect.Struct:
	default:
		return member{}, false
	}
	for n := range v.NumField() {
		f := v.Type().Field(n)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == "-":
		case f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct:
			if inner, ok := find(v.Field(n), name); ok {
				return inner, true
			}
		case !f.IsExported():
		case tag == name || tag == "" && f.Name == name:
			options = "," + options + ","
			return member{value: v.Field(n), omitEmpty: strings.Contains(options, ",omitempty,"),
				omitZero: strings.Contains(options, ",omitzero,")}, true
		}
	}
	return member{}, false
}
