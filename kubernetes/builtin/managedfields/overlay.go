package managedfields

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"kelson.dev/apiserver/fastpath/fieldset"
	"kelson.dev/apiserver/fastpath/shape"
)

// overlay merges an applied configuration into an object that already has all of its fields. The
// writer records fields whose values differ.
type overlay struct {
	writer
	set bool // write the values into the object; otherwise only compare them
}

// over merges a configuration into an object. ok is false if the object lacks a field, or only the
// library can merge it.
func (o *overlay) over(config map[string]any, object reflect.Value, s *shape.Shape, reset []string) (changed, ok bool) {
	info := value.TypeReflectEntryOf(object.Type())
	return o.Within(false, func() bool {
		return o.members(config, object, info, func(name string, v reflect.Value, info *typeInfo) (changed, ok bool) {
			if name == "metadata" {
				metadata, isMap := config[name].(map[string]any)
				if !isMap || s.Members[name] == nil {
					return false, false
				}
				return o.overMetadata(metadata, v, info, s.Members[name])
			}
			changed, ok = o.value(config[name], v, info, s.Members[name])
			return changed, ok && !(changed && (name == "apiVersion" || name == "kind" || slices.Contains(reset, name)))
		})
	})
}

func (o *overlay) overMetadata(config map[string]any, object reflect.Value, info *typeInfo, s *shape.Shape) (changed, ok bool) {
	return o.Within(false, func() bool {
		return o.members(config, object, info, func(name string, v reflect.Value, info *typeInfo) (changed, ok bool) {
			changed, ok = o.value(config[name], v, info, s.Members[name])
			return changed, ok && !(changed && fieldset.Identifies(name))
		})
	})
}

// members calls each with the members of a struct that a configuration has, in order.
func (o *overlay) members(config map[string]any, object reflect.Value, info *typeInfo, each func(name string, v reflect.Value, info *typeInfo) (changed, ok bool)) bool {
	fields := info.Fields()
	return o.Sorted(config, func(name string) bool {
		f, ok := fields[name]
		if !ok {
			return false
		}
		v := f.GetFrom(object)
		if f.CanOmit(v) {
			return false
		}
		return o.Member(name, func() (bool, bool) { return each(name, v, f.TypeEntry) })
	})
}

// value merges a value into another.
func (o *overlay) value(config any, v reflect.Value, info *typeInfo, s *shape.Shape) (changed, ok bool) {
	if s == nil || config == nil {
		return false, false
	}
	if info.CanConvertToUnstructured() {
		return o.whole(config, v, info, s)
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return false, false
		}
		v = v.Elem()
		if info = value.TypeReflectEntryOf(v.Type()); info.CanConvertToUnstructured() {
			return false, false
		}
	}
	if s.Atomic {
		return o.whole(config, v, info, s)
	}
	switch c := config.(type) {
	case map[string]any:
		switch {
		case s.Kind != shape.Object || len(c) == 0 && !blank(v, info):
			// the library removes unowned members
			return false, false
		case v.Kind() == reflect.Struct:
			return o.Within(false, func() bool {
				return o.members(c, v, info, func(name string, v reflect.Value, info *typeInfo) (bool, bool) {
					return o.value(c[name], v, info, s.Members[name])
				})
			})
		case v.Kind() == reflect.Map && !v.IsNil():
			return o.entries(c, v, s)
		}
	case []any:
		if s.Kind == shape.List && v.Kind() == reflect.Slice && !v.IsNil() {
			return o.elements(c, v, s)
		}
	default:
		return o.scalar(config, v, s)
	}
	return false, false
}

// whole replaces a value that is owned as a whole.
func (o *overlay) whole(config any, v reflect.Value, info *typeInfo, s *shape.Shape) (changed, ok bool) {
	switch {
	case o.same(config, v, info, s):
		return false, true
	case !s.Leaf() || !certain(config):
		return false, false
	case o.set:
		next, ok := decoded(config, v.Type())
		if !ok {
			return false, false
		}
		v.Set(next)
	}
	o.Leaf()
	return true, true
}

// certain reports whether a value is not empty and equals another only if their JSON is equal.
func certain(config any) bool {
	switch c := config.(type) {
	case map[string]any:
		for _, member := range c {
			if !certain(member) {
				return false
			}
		}
		return len(c) > 0
	case []any:
		for _, element := range c {
			if !certain(element) {
				return false
			}
		}
		return len(c) > 0
	case string, int64, bool:
		return true
	}
	return false
}

// decoded returns the Go value of a configured one.
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

// scalar replaces a scalar.
func (o *overlay) scalar(config any, v reflect.Value, s *shape.Shape) (changed, ok bool) {
	switch c := config.(type) {
	case string:
		if v.Kind() != reflect.String {
			return false, o.same(config, v, nil, s)
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
	o.Leaf()
	return true, true
}

// entries merges members into a map.
func (o *overlay) entries(config map[string]any, v reflect.Value, s *shape.Shape) (changed, ok bool) {
	return o.Within(false, func() bool {
		return o.Sorted(config, func(name string) bool {
			return o.Member(name, func() (changed, ok bool) {
				c, isText := config[name].(string)
				part, declared := s.Member(name)
				if !isText || declared || part == nil || !part.Leaf() {
					return false, false
				}
				switch m := v.Interface().(type) {
				case map[string]string:
					is, has := m[name]
					if !has || is == c {
						return false, has
					}
					if o.set {
						m[name] = c
					}
				case map[string][]byte:
					is, has := m[name]
					data, err := base64.StdEncoding.Strict().DecodeString(c)
					if !has || err != nil || string(is) == string(data) {
						return false, has && err == nil && (string(is) != string(data) || base64.StdEncoding.EncodeToString(is) == c)
					}
					if o.set {
						m[name] = data
					}
				default:
					key := reflect.ValueOf(name).Convert(v.Type().Key())
					member := v.MapIndex(key)
					if !member.IsValid() {
						return false, false
					}
					if o.same(c, member, value.TypeReflectEntryOf(member.Type()), part) {
						return false, true
					}
					if o.set {
						next, ok := decoded(c, member.Type())
						if !ok {
							return false, false
						}
						v.SetMapIndex(key, next)
					}
				}
				o.Leaf()
				return true, true
			})
		})
	})
}

// elements merges elements into a list that has them in the same order, possibly with others in
// between.
func (o *overlay) elements(config []any, v reflect.Value, s *shape.Shape) (changed, ok bool) {
	if s.Items == nil {
		return false, false
	}
	marks := make([]fieldset.Mark, v.Len())
	for i := range marks {
		if marks[i], ok = markIn(v.Index(i), s); !ok || slices.ContainsFunc(marks[:i], func(m fieldset.Mark) bool { return m.Compare(marks[i]) == 0 }) {
			return false, false
		}
	}
	info := value.TypeReflectEntryOf(v.Type().Elem())
	return o.Within(false, func() bool {
		at, base := 0, len(o.Marks)
		for i, element := range config {
			m, ok := fieldset.MarkOf(element, s)
			if !ok {
				return false
			}
			for at < len(marks) && marks[at].Compare(m) != 0 {
				at++
			}
			if at == len(marks) {
				return false
			}
			m.At, m.In = i, at
			o.Marks = append(o.Marks, m)
			at++
		}
		if !o.SortMarks(base) {
			return false
		}
		for i := base; i < base+len(config); i++ {
			m, start := o.Marks[i], len(o.Raw)
			if !o.Element(&m, s.Keys) {
				return false
			}
			changed, ok := o.value(config[m.At], v.Index(m.In), info, s.Items)
			if !ok {
				return false
			}
			if !changed {
				o.Raw = o.Raw[:start]
			}
		}
		o.Marks = o.Marks[:base]
		return true
	})
}

// same reports whether a Go value certainly equals a configured one.
func (o *overlay) same(config any, v reflect.Value, info *typeInfo, s *shape.Shape) bool {
	if s == nil || config == nil {
		return false
	}
	if info != nil && info.CanConvertToUnstructured() {
		is, err := info.ToUnstructured(v)
		return err == nil && equal(config, is)
	}
	if v.Kind() == reflect.Pointer {
		return !v.IsNil() && o.same(config, v.Elem(), value.TypeReflectEntryOf(v.Type().Elem()), s)
	}
	switch c := config.(type) {
	case map[string]any:
		switch v.Kind() {
		case reflect.Struct:
			there := 0
			for _, f := range info.OrderedFields() {
				member := f.GetFrom(v)
				if f.CanOmit(member) {
					continue
				}
				there++
				part, _ := s.Member(f.JsonName)
				if wanted, ok := c[f.JsonName]; !ok || !o.same(wanted, member, f.TypeEntry, part) {
					return false
				}
			}
			return there == len(c)
		case reflect.Map:
			if v.IsNil() || v.Len() != len(c) {
				return false
			}
			for name, wanted := range c {
				member := v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key()))
				part, _ := s.Member(name)
				if !member.IsValid() || !o.same(wanted, member, value.TypeReflectEntryOf(member.Type()), part) {
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
			if !o.same(wanted, v.Index(i), info, s.Items) {
				return false
			}
		}
		return true
	case string:
		switch v.Kind() {
		case reflect.String:
			return v.String() == c
		case reflect.Slice:
			return v.Type().Elem().Kind() == reflect.Uint8 && !v.IsNil() && base64.StdEncoding.EncodeToString(v.Bytes()) == c
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
