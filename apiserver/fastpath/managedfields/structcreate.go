package managedfields

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"kelson.dev/apiserver/fastpath/fieldset"
	"kelson.dev/apiserver/fastpath/shape"
)

// structWriter encodes field sets of Go values. (Writer.Object encodes those of trees.)
type structWriter struct{ *fieldset.Writer }

func newStructWriter() structWriter { return structWriter{fieldset.NewWriter()} }

// created writes the fields in which a new object differs from an empty one, both in the Go type of
// its version. ok is false if only the library can decide.
func (w structWriter) created(empty, object reflect.Value, s *shape.Shape, reset []string) (ok bool) {
	info := value.TypeReflectEntryOf(object.Type())
	_, ok = w.Within(false, func() bool {
		return w.fields(empty, object, info, func(name string, was, is reflect.Value, info *typeInfo) bool {
			change := func() (bool, bool) { return w.changed(was, is, info, s.Members[name]) }
			switch {
			case name == "apiVersion" || name == "kind":
				return true
			case name == "metadata":
				return s.Members[name] != nil && w.Member(name, func() (bool, bool) {
					return w.createdMetadata(was, is, info, s.Members[name])
				})
			case slices.Contains(reset, name):
				return w.Unwritten(change)
			}
			return w.Member(name, change)
		})
	})
	return ok && len(w.Raw) > 0
}

func (w structWriter) createdMetadata(was, is reflect.Value, info *typeInfo, s *shape.Shape) (owned, ok bool) {
	return w.Within(false, func() bool {
		return w.fields(was, is, info, func(name string, was, is reflect.Value, info *typeInfo) bool {
			if name == "managedFields" {
				return false
			}
			if fieldset.Identifies(name) {
				return true
			}
			return w.Member(name, func() (bool, bool) { return w.changed(was, is, info, s.Members[name]) })
		})
	})
}

// fields calls each with the members of a struct, in order. was is the zero Value for a member that
// was omitted before.
func (w structWriter) fields(was, is reflect.Value, info *typeInfo,
	each func(name string, was, is reflect.Value, info *typeInfo) bool) bool {
	for _, f := range info.OrderedFields() {
		before, now, present, ok := states(f, was, is)
		if !ok || present && !each(f.JsonName, before, now, f.TypeEntry) {
			return false
		}
	}
	return true
}

// states returns a member of a struct before and now, and whether it is present now. ok is false if
// it was removed.
func states(f *value.FieldCacheEntry, was, is reflect.Value) (before, now reflect.Value, present, ok bool) {
	now = f.GetFrom(is)
	if was.IsValid() {
		if before = f.GetFrom(was); f.CanOmit(before) {
			before = reflect.Value{}
		}
	}
	present = !f.CanOmit(now)
	return before, now, present, present || !before.IsValid()
}

// changed writes the fields in which a value differs from was, which is zero, or invalid if there
// was no value.
func (w structWriter) changed(was, is reflect.Value, info *typeInfo, s *shape.Shape) (owned, ok bool) {
	switch {
	case s == nil || s.Kind == shape.Unknown:
		return false, false
	case was.IsValid() && is.IsZero():
		return false, true
	case s.Leaf():
		return w.changedLeaf(was, is, info, s)
	case info.CanConvertToUnstructured():
		return false, false
	}
	self := !was.IsValid() // the creator owns it
	if is.Kind() == reflect.Pointer {
		if is.IsNil() {
			w.Leaf()
			return true, true
		}
		is = is.Elem()
		info = value.TypeReflectEntryOf(is.Type())
		if info.CanConvertToUnstructured() {
			return false, false
		}
		if was.IsValid() {
			if blank(is, info) {
				w.Leaf()
				return true, true
			}
			was = reflect.Value{} // null
		}
	}
	switch is.Kind() {
	case reflect.Struct:
		if s.Kind != shape.Object {
			return false, false
		}
		return w.changedMembers(was, is, info, s, self)
	case reflect.Map:
		if s.Kind != shape.Object {
			return false, false
		}
		if is.Len() == 0 {
			w.Leaf()
			return true, true
		}
		return w.Within(self, func() bool { return w.entries(is, s) })
	case reflect.Slice:
		if s.Kind != shape.List || s.Items == nil {
			return false, false
		}
		if is.Len() == 0 {
			w.Leaf()
			return true, true
		}
		return w.newElements(is, s, self)
	}
	return false, false
}

func (w structWriter) changedMembers(was, is reflect.Value, info *typeInfo, s *shape.Shape,
	self bool) (owned, ok bool) {
	start, parts := w.Begin(self)
	for _, f := range info.OrderedFields() {
		before, now, present, ok := states(f, was, is)
		if !ok {
			return false, false
		}
		if !present {
			continue
		}
		at := len(w.Raw)
		member, declared := s.Member(f.JsonName)
		if !declared || !w.Name(f.JsonName) {
			return false, false
		}
		owned, ok := w.changed(before, now, f.TypeEntry, member)
		if !ok {
			return false, false
		}
		if !owned {
			w.Raw = w.Raw[:at]
		}
	}
	return w.End(start, parts, self), true
}

// newElements writes the elements of a new list.
func (w structWriter) newElements(is reflect.Value, s *shape.Shape, self bool) (owned, ok bool) {
	start, parts := w.Begin(self)
	base := len(w.Keys)
	for i := range is.Len() {
		m, ok := structElementKey(is.Index(i), s)
		if !ok {
			return false, false
		}
		m.At = i
		w.Keys = append(w.Keys, m)
	}
	if !w.SortKeys(base) {
		return false, false
	}
	info := value.TypeReflectEntryOf(is.Type().Elem())
	for i := base; i < base+is.Len(); i++ {
		m := &w.Keys[i]
		at := m.At
		if !w.Element(m, s.Keys) {
			return false, false
		}
		if _, ok := w.changed(reflect.Value{}, is.Index(at), info, s.Items); !ok {
			return false, false
		}
	}
	w.Keys = w.Keys[:base]
	return w.End(start, parts, self), true
}

// numberOrName is the type of a mixed scalar that is never a list or map.
var numberOrName = reflect.TypeFor[intstr.IntOrString]()

// changedLeaf implements changed for scalars.
func (w structWriter) changedLeaf(was, is reflect.Value, info *typeInfo, s *shape.Shape) (owned, ok bool) {
	if s.Keyed { // the library checks whether the keys are known
		return false, false
	}
	if t := is.Type(); s.Mixed && t != numberOrName && t != reflect.PointerTo(numberOrName) {
		return false, false
	}
	if was.IsValid() { // and is something else now
		switch is.Kind() {
		case reflect.Struct:
			if info.CanConvertToUnstructured() {
				before, err := info.ToUnstructured(was)
				if err != nil {
					return false, false
				}
				now, err := info.ToUnstructured(is)
				if err != nil {
					return false, false
				}
				if reflect.DeepEqual(before, now) {
					return false, true
				}
				break
			}
			if !differs(is, info) {
				return false, blank(is, info) && blank(was, info)
			}
		case reflect.Interface, reflect.Array:
			return false, false
		default:
			if info.CanConvertToUnstructured() {
				return false, false
			}
		}
	}
	w.Leaf()
	return true, true
}

// blank reports whether the JSON of a struct is empty.
func blank(v reflect.Value, info *typeInfo) bool {
	if v.Kind() != reflect.Struct {
		return false
	}
	for _, f := range info.OrderedFields() {
		if !f.CanOmit(f.GetFrom(v)) {
			return false
		}
	}
	return true
}

// differs reports whether the JSON of a struct certainly differs from that of a zero one.
func differs(v reflect.Value, info *typeInfo) bool {
	for _, f := range info.OrderedFields() {
		member := f.GetFrom(v)
		if f.TypeEntry.CanConvertToUnstructured() || f.CanOmit(member) {
			continue
		}
		switch member.Kind() {
		case reflect.Slice, reflect.Map:
			if member.Len() > 0 {
				return true
			}
		case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
			if !member.IsZero() {
				return true
			}
		}
	}
	return false
}

// entries writes the members of a new map.
func (w structWriter) entries(members reflect.Value, s *shape.Shape) bool {
	base := len(w.Names)
	switch m := members.Interface().(type) {
	case map[string]string:
		for name := range m {
			w.Names = append(w.Names, name)
		}
	case map[string][]byte:
		for name := range m {
			w.Names = append(w.Names, name)
		}
	case corev1.ResourceList:
		for name := range m {
			w.Names = append(w.Names, string(name))
		}
	default:
		return false
	}
	slices.Sort(w.Names[base:])
	for i := range members.Len() {
		name := w.Names[base+i]
		member, declared := s.Member(name)
		if declared || member == nil || !member.Leaf() || member.Keyed || !w.Name(name) {
			return false
		}
		w.Leaf()
	}
	w.Names = w.Names[:base]
	return true
}

// structElementKey returns the key of an element of a list.
func structElementKey(element reflect.Value, s *shape.Shape) (m fieldset.ElementKey, ok bool) {
	if len(s.Keys) == 0 {
		m.Key[0], ok = scalarIn(element)
		return m, ok
	}
	if element.Kind() != reflect.Struct || len(s.Keys) > fieldset.MaxKeys {
		return m, false
	}
	info := value.TypeReflectEntryOf(element.Type())
	if info.CanConvertToUnstructured() {
		return m, false
	}
	for i, k := range s.Keys {
		f, ok := info.Fields()[k.Name]
		if !ok {
			return m, false
		}
		if v := f.GetFrom(element); f.CanOmit(v) {
			m.Key[i], _ = fieldset.ScalarOf(k.Default)
		} else if m.Key[i], ok = scalarIn(v); !ok {
			return m, false
		}
		if m.Key[i].Kind == shape.Unknown {
			return m, false
		}
	}
	return m, true
}

func scalarIn(v reflect.Value) (fieldset.Scalar, bool) {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if value.TypeReflectEntryOf(v.Type()).CanConvertToUnstructured() {
		return fieldset.Scalar{}, false
	}
	switch v.Kind() {
	case reflect.String:
		return fieldset.Scalar{Kind: shape.Text, Text: v.String()}, true
	case reflect.Int32, reflect.Int64, reflect.Int:
		return fieldset.Scalar{Kind: shape.Number, Number: v.Int()}, true
	}
	return fieldset.Scalar{}, false
}
