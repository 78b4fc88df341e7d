package managedfields

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"kelson.dev/apiserver/fastpath/fieldset"
	"kelson.dev/apiserver/fastpath/shape"
)

// update records that the manager named by owns the fields that differ between two states of an
// object. It returns false, without having changed anything, if only the library can decide.
func (m *StructManager) update(live, next runtime.Object, by string) bool {
	before, err := meta.Accessor(live)
	if err != nil || !fieldset.Plain(by) {
		return false
	}
	after, err := meta.Accessor(next)
	if err != nil {
		return false
	}
	entries := before.GetManagedFields()
	if given := after.GetManagedFields(); given != nil && m.subresource == "" && !equality.Semantic.DeepEqual(given, entries) {
		return false // the client changes managedFields itself
	}
	managers, ok := m.read(entries)
	if !ok || len(managers) == 0 {
		return false
	}
	was, ok := m.toVersion(live)
	if !ok {
		return false
	}
	is, ok := m.toVersion(next)
	if !ok || !m.check().accepts(was) || !m.check().accepts(is) {
		return false
	}
	d := structDifferences{}
	if !d.objects(was, is, m.Shape, m.Reset) {
		return false
	}
	c := change{set: m.filtered(d.paths), removed: m.filtered(d.gone)}
	if by == "" {
		by = "unknown"
	}
	managers, ok = m.afterUpdate(managers, c, identity{by, operationUpdate, m.subresource})
	if !ok {
		return false
	}
	after.SetManagedFields(entries)
	m.write(after, managers)
	return true
}

// filtered returns a set of paths, nil if it is empty.
func (m *StructManager) filtered(paths []fieldpath.Path) *fieldpath.Set {
	if len(paths) == 0 {
		return nil
	}
	set := fieldpath.NewSet(paths...)
	if m.Filter != nil {
		if set = m.Filter.Filter(set); set.Empty() {
			return nil
		}
	}
	return set
}

// structDifferences are the differences of two values of one Go type. Its methods return false if
// only the library can decide; differences.between does the same for maps.
type structDifferences struct{ differences }

// objects adds the differences of two objects, except those in fields that no manager owns.
func (d *structDifferences) objects(was, is reflect.Value, s *shape.Shape, reset []string) bool {
	return d.fields(was, is, value.TypeReflectEntryOf(is.Type()), func(name string, was, is reflect.Value, info *typeInfo) bool {
		member, declared := s.Member(name)
		switch {
		case name == "apiVersion" || name == "kind" || slices.Contains(reset, name):
			return true
		case !declared:
			return false
		case name == "metadata":
			return was.IsValid() && is.IsValid() && d.fields(was, is, info, func(name string, was, is reflect.Value, info *typeInfo) bool {
				if fieldset.Identifies(name) {
					return true
				}
				member, declared := member.Member(name)
				return declared && d.either(was, is, info, member)
			})
		}
		return d.either(was, is, info, member)
	})
}

// fields calls each for every member that at least one of two structs has. A member that only one
// of them has is the zero Value in the other. During the call, the path contains the member.
func (d *structDifferences) fields(was, is reflect.Value, info *typeInfo, each func(name string, was, is reflect.Value, info *typeInfo) bool) bool {
	for _, f := range info.OrderedFields() {
		before, now := f.GetFrom(was), f.GetFrom(is)
		if f.CanOmit(before) {
			before = reflect.Value{}
		}
		if f.CanOmit(now) {
			now = reflect.Value{}
		}
		if !before.IsValid() && !now.IsValid() {
			continue
		}
		if !d.at(fieldpath.FieldNameElement(f.JsonName), func() bool { return each(f.JsonName, before, now, f.TypeEntry) }) {
			return false
		}
	}
	return true
}

// either adds the differences of two values. One of them may be absent.
func (d *structDifferences) either(was, is reflect.Value, info *typeInfo, s *shape.Shape) bool {
	switch {
	case !is.IsValid():
		return d.whole(was, info, s, &d.gone)
	case !was.IsValid():
		return d.whole(is, info, s, &d.paths)
	}
	return d.between(was, is, info, s)
}

// between adds the differences of two values at the current path.
func (d *structDifferences) between(was, is reflect.Value, info *typeInfo, s *shape.Shape) bool {
	if same, ok := identical(was, is); same || ok && s == nil {
		return same
	}
	if s == nil || s.Kind == shape.Unknown || s.Mixed {
		return reflect.DeepEqual(was.Interface(), is.Interface())
	}
	if info.CanConvertToUnstructured() {
		return d.converted(was, is, info, s)
	}
	switch was.Kind() {
	case reflect.Pointer:
		if was.IsNil() || is.IsNil() {
			return was.IsNil() && is.IsNil()
		}
		return d.between(was.Elem(), is.Elem(), value.TypeReflectEntryOf(was.Type().Elem()), s)
	case reflect.Struct:
		if s.Kind != shape.Object || s.Atomic || blank(was, info) || blank(is, info) {
			return reflect.DeepEqual(was.Interface(), is.Interface())
		}
		return d.fields(was, is, info, func(name string, was, is reflect.Value, info *typeInfo) bool {
			member, declared := s.Member(name)
			return declared && d.either(was, is, info, member)
		})
	case reflect.Map:
		return d.maps(was, is, s)
	case reflect.Slice:
		return d.slices(was, is, s)
	// identical has compared them
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64:
		return s.Has(scalarTree(is)) && d.add(&d.paths)
	}
	return reflect.DeepEqual(was.Interface(), is.Interface())
}

// identical compares scalars. ok is false for other values.
func identical(a, b reflect.Value) (same, ok bool) {
	switch a.Kind() {
	case reflect.String:
		return a.String() == b.String(), true
	case reflect.Bool:
		return a.Bool() == b.Bool(), true
	case reflect.Int, reflect.Int32, reflect.Int64:
		return a.Int() == b.Int(), true
	}
	return false, false
}

// scalarTree returns a scalar as trees have it.
func scalarTree(v reflect.Value) any {
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	}
	return v.Int()
}

// converted implements between for types with their own encoding, such as times and quantities.
func (d *structDifferences) converted(was, is reflect.Value, info *typeInfo, s *shape.Shape) bool {
	before, err := info.ToUnstructured(was)
	if err != nil {
		return false
	}
	now, err := info.ToUnstructured(is)
	if err != nil {
		return false
	}
	if reflect.DeepEqual(before, now) {
		return true
	}
	return s.Kind > shape.List && s.Has(before) && s.Has(now) && reflect.TypeOf(before) == reflect.TypeOf(now) && d.add(&d.paths)
}

func (d *structDifferences) maps(was, is reflect.Value, s *shape.Shape) bool {
	if s.Kind != shape.Object || s.Atomic || was.Len() == 0 || is.Len() == 0 || was.Type().Key().Kind() != reflect.String {
		return reflect.DeepEqual(was.Interface(), is.Interface())
	}
	info := value.TypeReflectEntryOf(was.Type().Elem())
	each := func(own, other reflect.Value, do func(mine, theirs reflect.Value, member *shape.Shape) bool) bool {
		for members := own.MapRange(); members.Next(); {
			name := members.Key().String()
			member, declared := s.Member(name)
			if declared || !d.at(fieldpath.FieldNameElement(name), func() bool { return do(members.Value(), other.MapIndex(members.Key()), member) }) {
				return false
			}
		}
		return true
	}
	return each(was, is, func(mine, theirs reflect.Value, member *shape.Shape) bool {
		return d.either(mine, theirs, info, member)
	}) &&
		each(is, was, func(mine, theirs reflect.Value, member *shape.Shape) bool {
			return theirs.IsValid() || d.whole(mine, info, member, &d.paths)
		})
}

func (d *structDifferences) slices(was, is reflect.Value, s *shape.Shape) bool {
	switch {
	case s.Kind == shape.Text && was.Type().Elem().Kind() == reflect.Uint8: // base64
		if was.IsNil() || is.IsNil() {
			return was.IsNil() && is.IsNil()
		}
		return slices.Equal(was.Bytes(), is.Bytes()) || d.add(&d.paths)
	case reflect.DeepEqual(was.Interface(), is.Interface()):
		return true
	case s.Kind != shape.List || was.Len() == 0 || is.Len() == 0:
		return false
	case s.Atomic:
		return d.atomicList(was, is)
	case len(s.Keys) == 0 || max(was.Len(), is.Len()) > maxElements:
		return false
	}
	return d.elements(was, is, s)
}

// atomicList compares lists that have one owner and differ in Go. Elements that are equal as JSON
// may differ in Go, so the library's equality decides about those that are not plain.
func (d *structDifferences) atomicList(was, is reflect.Value) bool {
	if !plainElements(is) {
		if !was.CanAddr() || !is.CanAddr() {
			return false
		}
		before, err := value.NewValueReflect(was.Addr().Interface())
		if err != nil {
			return false
		}
		now, err := value.NewValueReflect(is.Addr().Interface())
		if err != nil {
			return false
		}
		if value.Equals(before, now) {
			return true
		}
	}
	return d.add(&d.paths)
}

// plainElements reports whether elements of a list are strings, booleans or integers, whose
// equality in Go is that in JSON.
func plainElements(list reflect.Value) bool {
	t := list.Type().Elem()
	if value.TypeReflectEntryOf(t).CanConvertToUnstructured() {
		return false
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64:
		return true
	}
	return false
}

// elements compares lists with keys. The keys of the shorter list must be a prefix of those of the
// longer one.
func (d *structDifferences) elements(was, is reflect.Value, s *shape.Shape) bool {
	info := value.TypeReflectEntryOf(was.Type().Elem())
	seen := make([]fieldpath.PathElement, 0, max(was.Len(), is.Len()))
	for i := range max(was.Len(), is.Len()) {
		var before, now reflect.Value
		var key fieldpath.PathElement
		ok := true
		if i < was.Len() {
			before = was.Index(i)
			key, ok = structKey(before, s)
		}
		if i < is.Len() && ok {
			now = is.Index(i)
			other, has := structKey(now, s)
			if ok = has && (!before.IsValid() || key.Equals(other)); ok {
				key = other
			}
		}
		if !ok || slices.ContainsFunc(seen, key.Equals) || !d.at(key, func() bool { return d.either(before, now, info, s.Items) }) {
			return false
		}
		seen = append(seen, key)
	}
	return true
}

// structKey returns the key of an element of a list. ok is false if a key member is missing or is
// not a scalar with exact equality.
func structKey(element reflect.Value, s *shape.Shape) (fieldpath.PathElement, bool) {
	if element.Kind() != reflect.Struct || s.Items == nil || s.Items.Atomic {
		return fieldpath.PathElement{}, false
	}
	info := value.TypeReflectEntryOf(element.Type())
	if info.CanConvertToUnstructured() {
		return fieldpath.PathElement{}, false
	}
	key := make(value.FieldList, len(s.Keys))
	for i, k := range s.Keys {
		f, ok := info.Fields()[k.Name]
		if !ok {
			return fieldpath.PathElement{}, false
		}
		v := f.GetFrom(element)
		if f.CanOmit(v) || f.TypeEntry.CanConvertToUnstructured() { // it may have a default
			return fieldpath.PathElement{}, false
		}
		switch v.Kind() {
		case reflect.String, reflect.Int, reflect.Int32, reflect.Int64, reflect.Bool:
			key[i] = value.Field{Name: k.Name, Value: value.NewValueInterface(scalarTree(v))}
		default:
			return fieldpath.PathElement{}, false
		}
	}
	return fieldpath.PathElement{Key: &key}, true
}

// whole adds the paths of a value that only one of the two objects has.
func (d *structDifferences) whole(v reflect.Value, info *typeInfo, s *shape.Shape, to *[]fieldpath.Path) bool {
	if s == nil || s.Kind == shape.Unknown || s.Mixed {
		return false
	}
	if info.CanConvertToUnstructured() {
		tree, err := info.ToUnstructured(v)
		// Null has every type: times that are not set are written as null.
		return err == nil && s.Kind > shape.List && (tree == nil || s.Has(tree)) && d.add(to)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && d.whole(v.Elem(), value.TypeReflectEntryOf(v.Type().Elem()), s, to)
	case reflect.Struct:
		if s.Kind != shape.Object {
			return false
		}
		d.add(to)
		if s.Atomic {
			return true
		}
		for _, f := range info.OrderedFields() {
			member := f.GetFrom(v)
			if f.CanOmit(member) {
				continue
			}
			inner, declared := s.Member(f.JsonName)
			if !declared || !d.at(fieldpath.FieldNameElement(f.JsonName), func() bool { return d.whole(member, f.TypeEntry, inner, to) }) {
				return false
			}
		}
		return true
	case reflect.Map:
		if s.Kind != shape.Object || v.IsNil() || v.Type().Key().Kind() != reflect.String {
			return false
		}
		d.add(to)
		if s.Atomic {
			return true
		}
		inner := value.TypeReflectEntryOf(v.Type().Elem())
		for members := v.MapRange(); members.Next(); {
			name := members.Key().String()
			member, declared := s.Member(name)
			if declared || !d.at(fieldpath.FieldNameElement(name), func() bool { return d.whole(members.Value(), inner, member, to) }) {
				return false
			}
		}
		return true
	case reflect.Slice:
		return d.wholeSlice(v, s, to)
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64:
		return s.Has(scalarTree(v)) && d.add(to)
	}
	return false
}

func (d *structDifferences) wholeSlice(v reflect.Value, s *shape.Shape, to *[]fieldpath.Path) bool {
	if v.IsNil() {
		return false
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return s.Kind == shape.Text && d.add(to)
	}
	if s.Kind != shape.List || !s.Atomic && (len(s.Keys) == 0 || v.Len() > maxElements) {
		return false
	}
	d.add(to)
	if s.Atomic {
		return true
	}
	info := value.TypeReflectEntryOf(v.Type().Elem())
	seen := make([]fieldpath.PathElement, 0, v.Len())
	for i := range v.Len() {
		key, ok := structKey(v.Index(i), s)
		if !ok || slices.ContainsFunc(seen, key.Equals) || !d.at(key, func() bool { return d.whole(v.Index(i), info, s.Items, to) }) {
			return false
		}
		seen = append(seen, key)
	}
	return true
}
