package managedfields

import (
	"encoding/base64"
	"encoding/json"
	"reflect"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"kelson.dev/apiserver/fastpath/fieldset"
	"kelson.dev/apiserver/fastpath/shape"
)

// typeInfo is the merge library's description of a Go type: its JSON members, in order, and when
// they are omitted.
type typeInfo = value.TypeReflectCacheEntry

// structValue is a value of a struct.
type structValue struct {
	reflect.Value
	info *typeInfo
}

func structValueOf(v reflect.Value) structValue {
	return structValue{v, value.TypeReflectEntryOf(v.Type())}
}

// structValues is the representation of built-in objects: Go structs.
type structValues struct {
	// If set is true, a walk writes values into the object, which the caller has copied. Otherwise
	// it only compares them.
	set bool
}

var _ representation[structValue] = structValues{}

func (structValues) open(v structValue) (inner structValue, opaque, ok bool) {
	if v.info.CanConvertToUnstructured() {
		return v, true, true
	}
	if v.Kind() != reflect.Pointer {
		return v, false, true
	}
	if v.IsNil() {
		return v, false, false
	}
	inner = structValueOf(v.Elem())
	return inner, false, !inner.info.CanConvertToUnstructured()
}

func (structValues) isObject(v structValue) bool {
	return v.Kind() == reflect.Struct || v.Kind() == reflect.Map && !v.IsNil()
}

func (structValues) isList(v structValue) bool { return v.Kind() == reflect.Slice && !v.IsNil() }

func (structValues) blank(v structValue) bool { return blank(v.Value, v.info) }

func (structValues) member(object structValue, name string) (member structValue, ok bool) {
	f, ok := object.info.Fields()[name]
	if !ok {
		return member, false
	}
	v := f.GetFrom(object.Value)
	return structValue{v, f.TypeEntry}, !f.CanOmit(v)
}

// withMember returns object: replace has set the member.
func (structValues) withMember(object structValue, _ bool, _ string, _ structValue) structValue {
	return object
}

func (structValues) length(list structValue) int { return list.Len() }

func (structValues) element(list structValue, i int) structValue {
	return structValueOf(list.Index(i))
}

// withElement returns list: replace has set the element.
func (structValues) withElement(list structValue, _ bool, _ int, _ structValue) structValue {
	return list
}

func (structValues) key(element structValue, s *shape.Shape) (fieldset.ElementKey, bool) {
	return structElementKey(element.Value, s)
}

func (o structValues) replace(config any, v structValue, s *shape.Shape,
	whole bool) (next structValue, changed, ok bool) {
	if whole {
		changed, ok = o.replaceWhole(config, v, s)
	} else {
		changed, ok = o.replaceScalar(config, v, s)
	}
	return v, changed, ok
}

// replaceWhole replaces a value that is owned as a whole.
func (o structValues) replaceWhole(config any, v structValue, s *shape.Shape) (changed, ok bool) {
	switch {
	case same(config, v.Value, v.info, s):
		return false, true
	case !s.Leaf() || !comparable(config):
		return false, false
	case o.set:
		next, ok := decoded(config, v.Type())
		if !ok {
			return false, false
		}
		v.Set(next)
	}
	return true, true
}

func (o structValues) replaceScalar(config any, v structValue, s *shape.Shape) (changed, ok bool) {
	switch c := config.(type) {
	case string:
		if v.Kind() != reflect.String {
			return false, same(config, v.Value, nil, s)
		}
		if v.String() == c {
			return false, true
		}
		if o.set {
			v.SetString(c)
		}
	case bool:
		if v.Kind() != reflect.Bool {
			return false, false
		}
		if v.Bool() == c {
			return false, true
		}
		if o.set {
			v.SetBool(c)
		}
	case int64:
		if k := v.Kind(); k != reflect.Int32 && k != reflect.Int64 && k != reflect.Int || v.OverflowInt(c) {
			return false, false
		}
		if v.Int() == c {
			return false, true
		}
		if o.set {
			v.SetInt(c)
		}
	default:
		return false, false
	}
	return true, true
}

// scalars merges members into a Go map, whose values cannot be changed in place.
func (o structValues) scalars(w *fieldset.Writer, config map[string]any, object structValue,
	s *shape.Shape) (applies, changed, ok bool) {
	if object.Kind() != reflect.Map {
		return false, false, false
	}
	start, parts := w.Begin(false)
	base := w.PushNames(config)
	for i := range len(config) {
		name := w.Names[base+i]
		text, isText := config[name].(string)
		part, declared := s.Member(name)
		if !isText || declared || part == nil || !part.Leaf() {
			return true, false, false
		}
		different, ok := o.entry(object.Value, name, text, part)
		if !ok {
			return true, false, false
		}
		if !different {
			continue
		}
		changed = true
		if !w.Name(name) {
			return true, false, false
		}
		w.Leaf()
	}
	w.Names = w.Names[:base]
	w.End(start, parts, false)
	return true, changed, true
}

// entry replaces the value of an entry of a Go map.
func (o structValues) entry(entries reflect.Value, name, text string, s *shape.Shape) (changed, ok bool) {
	switch m := entries.Interface().(type) {
	case map[string]string:
		is, has := m[name]
		if !has || is == text {
			return false, has
		}
		if o.set {
			m[name] = text
		}
	case map[string][]byte:
		is, has := m[name]
		data, err := base64.StdEncoding.Strict().DecodeString(text)
		if !has || err != nil {
			return false, false
		}
		if string(is) == string(data) {
			return false, base64.StdEncoding.EncodeToString(is) == text
		}
		if o.set {
			m[name] = data
		}
	default:
		key := reflect.ValueOf(name).Convert(entries.Type().Key())
		member := entries.MapIndex(key)
		if !member.IsValid() {
			return false, false
		}
		if same(text, member, value.TypeReflectEntryOf(member.Type()), s) {
			return false, true
		}
		if o.set {
			next, ok := decoded(text, member.Type())
			if !ok {
				return false, false
			}
			entries.SetMapIndex(key, next)
		}
	}
	return true, true
}

// comparable reports whether a configured value certainly equals another value exactly if their
// JSON is equal. It returns false for empty maps and lists, and for scalars other than strings,
// integers and booleans.
func comparable(config any) bool {
	switch c := config.(type) {
	case map[string]any:
		for _, member := range c {
			if !comparable(member) {
				return false
			}
		}
		return len(c) > 0
	case []any:
		for _, element := range c {
			if !comparable(element) {
				return false
			}
		}
		return len(c) > 0
	case string, int64, bool:
		return true
	}
	return false
}

// decoded returns a configured value as a Go value.
func decoded(config any, t reflect.Type) (reflect.Value, bool) {
	data, err := json.Marshal(config)
	if err != nil {
		return reflect.Value{}, false
	}
	v := reflect.New(t)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, v.Interface()); err != nil {
		return reflect.Value{}, false
	}
	return v.Elem(), true
}

// same reports whether a Go value certainly equals a configured one.
func same(config any, v reflect.Value, info *typeInfo, s *shape.Shape) bool {
	if s == nil || config == nil {
		return false
	}
	if info != nil && info.CanConvertToUnstructured() {
		is, err := info.ToUnstructured(v)
		return err == nil && equal(config, is)
	}
	if v.Kind() == reflect.Pointer {
		return !v.IsNil() && same(config, v.Elem(), value.TypeReflectEntryOf(v.Type().Elem()), s)
	}
	switch c := config.(type) {
	case map[string]any:
		switch v.Kind() {
		case reflect.Struct:
			count := 0
			for _, f := range info.OrderedFields() {
				member := f.GetFrom(v)
				if f.CanOmit(member) {
					continue
				}
				count++
				part, _ := s.Member(f.JsonName)
				if wanted, ok := c[f.JsonName]; !ok || !same(wanted, member, f.TypeEntry, part) {
					return false
				}
			}
			return count == len(c)
		case reflect.Map:
			if v.IsNil() || v.Len() != len(c) {
				return false
			}
			for name, wanted := range c {
				member := v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key()))
				part, _ := s.Member(name)
				if !member.IsValid() || !same(wanted, member, value.TypeReflectEntryOf(member.Type()), part) {
					return false
				}
			}
			return true
		}
	case []any:
		if v.Kind() != reflect.Slice || v.IsNil() || v.Len() != len(c) {
			return false
		}
		info := value.TypeReflectEntryOf(v.Type().Elem())
		for i, wanted := range c {
			if !same(wanted, v.Index(i), info, s.Items) {
				return false
			}
		}
		return true
	case string:
		switch v.Kind() {
		case reflect.String:
			return v.String() == c
		case reflect.Slice:
			return v.Type().Elem().Kind() == reflect.Uint8 && !v.IsNil() &&
				base64.StdEncoding.EncodeToString(v.Bytes()) == c
		}
	case bool:
		return v.Kind() == reflect.Bool && v.Bool() == c
	case int64:
		return v.CanInt() && v.Int() == c
	}
	return false
}

// equal compares scalars.
func equal(a, b any) bool {
	switch a.(type) {
	case string, int64, bool:
		return a == b
	}
	return false
}
