package managedfields

import (
	"encoding/base64"
	"reflect"

	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// fill decodes a configuration that fits its schema into the zero value of its Go type, as the
// library's converter does. It returns false if only the library can.
func fill(config any, v reflect.Value, info *typeInfo) (ok bool) {
	if config == nil {
		return true
	}
	switch c := config.(type) {
	case string:
		if v.Kind() == reflect.String {
			v.SetString(c)
			return true
		}
	case bool:
		if v.Kind() == reflect.Bool {
			v.SetBool(c)
			return true
		}
	case int64:
		if k := v.Kind(); k == reflect.Int32 || k == reflect.Int64 {
			if v.OverflowInt(c) {
				return false
			}
			v.SetInt(c)
			return true
		}
	}
	if info.CanConvertFromUnstructured() {
		return info.FromUnstructured(reflect.ValueOf(config), v) == nil
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		return fill(config, v.Elem(), value.TypeReflectEntryOf(v.Type().Elem()))
	}
	switch c := config.(type) {
	case map[string]any:
		switch v.Kind() {
		case reflect.Struct:
			fields := info.Fields()
			for name, member := range c {
				f, ok := fields[name]
				if !ok || !fill(member, f.GetFrom(v), f.TypeEntry) {
					return false
				}
			}
			return true
		case reflect.Map:
			return fillMap(c, v)
		}
	case []any:
		if v.Kind() != reflect.Slice {
			return false
		}
		v.Set(reflect.MakeSlice(v.Type(), len(c), len(c)))
		info := value.TypeReflectEntryOf(v.Type().Elem())
		for i, element := range c {
			if !fill(element, v.Index(i), info) {
				return false
			}
		}
		return true
	case string:
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			data, err := base64.StdEncoding.DecodeString(c)
			v.SetBytes(data)
			return err == nil
		}
	}
	return false
}

func fillMap(config map[string]any, v reflect.Value) bool {
	if v.Type() == reflect.TypeFor[map[string]string]() {
		words := make(map[string]string, len(config))
		for name, member := range config {
			word, ok := member.(string)
			if !ok && member != nil {
				return false
			}
			words[name] = word
		}
		v.Set(reflect.ValueOf(words))
		return true
	}
	t := v.Type()
	if t.Key().Kind() != reflect.String {
		return false
	}
	v.Set(reflect.MakeMapWithSize(t, len(config)))
	info := value.TypeReflectEntryOf(t.Elem())
	for name, member := range config {
		value := reflect.New(t.Elem()).Elem()
		if !fill(member, value, info) {
			return false
		}
		v.SetMapIndex(reflect.ValueOf(name).Convert(t.Key()), value)
	}
	return true
}
