package managedfields

import (
	"reflect"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"kelson.dev/apiserver/fastpath/fieldset"
	"kelson.dev/apiserver/fastpath/shape"
	"kelson.dev/internal/tree"
)

// diff returns how b differs from a: the fields that are new or have other values, and the fields
// that are missing. ok is false unless the difference consists of maps, scalars, atomic lists, and
// lists with keys whose elements keep their order. Most differences do. diff ignores the unowned
// fields of metadata and the fields in Reset, which may differ or be missing.
func (m *MapManager) diff(a, b map[string]any) (d *differences, ok bool) {
	if m.Shape == nil {
		return nil, false
	}
	d = &differences{path: make(fieldpath.Path, 0, 8)}
	for name, was := range a {
		is, has := b[name]
		switch {
		case name == "apiVersion" || name == "kind", !has && slices.Contains(m.Reset, name):
			continue
		case name == "metadata":
			if has && slices.Contains(m.Reset, name) {
				continue
			}
			if !has || !sameMetadata(was, is) {
				return nil, false
			}
			continue
		}
		if !d.at(fieldpath.FieldNameElement(name), func() bool {
			if !has {
				return d.whole(was, m.member(name), &d.gone)
			}
			return d.between(was, is, m.member(name))
		}) {
			return nil, false
		}
	}
	for name, is := range b {
		if _, ok := a[name]; ok {
			continue
		}
		if name == "metadata" || !d.at(fieldpath.FieldNameElement(name), func() bool {
			return d.whole(is, m.member(name), &d.paths)
		}) {
			return nil, false
		}
	}
	return d, true
}

// maxElements is the length of the longest list in which each key is compared with all others.
const maxElements = 256

func sameMetadata(a, b any) bool {
	x, ok := a.(map[string]any)
	if !ok {
		return false
	}
	y, ok := b.(map[string]any)
	if !ok {
		return false
	}
	others := 0
	for name, value := range x {
		if fieldset.Identifies(name) {
			continue
		}
		others++
		if other, ok := y[name]; !ok || !tree.Same(value, other) {
			return false
		}
	}
	for name := range y {
		if !fieldset.Identifies(name) {
			others--
		}
	}
	return others == 0
}

// differences are the paths of the fields that differ.
type differences struct {
	path  fieldpath.Path
	paths []fieldpath.Path // new, or with another value
	gone  []fieldpath.Path
}

func (d *differences) add(to *[]fieldpath.Path) bool {
	*to = append(*to, slices.Clone(d.path))
	return true
}

// at calls do with the path extended by an element.
func (d *differences) at(element fieldpath.PathElement, do func() bool) bool {
	d.path = append(d.path, element)
	ok := do()
	d.path = d.path[:len(d.path)-1]
	return ok
}

// between adds the differences of two values at the current path. It returns false if only the
// library can decide.
func (d *differences) between(a, b any, s *shape.Shape) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		switch {
		case !ok || s != nil && s.Kind != shape.Object:
			return false
		case s == nil:
			return tree.Same(x, y)
		case s.Atomic:
			return tree.Same(x, y) || len(x) > 0 && len(y) > 0 && fits(s, y) && d.add(&d.paths)
		case (len(x) == 0) != (len(y) == 0):
			return false
		}
		return d.betweenMembers(x, y, s)
	case []any:
		y, ok := b.([]any)
		switch {
		case !ok:
			return false
		case tree.Same(x, y):
			return true
		case s == nil || s.Kind != shape.List || len(x) == 0 || len(y) == 0:
			return false
		case s.Atomic:
			return fits(s, y) && d.add(&d.paths)
		}
		return len(s.Keys) > 0 && d.betweenElements(x, y, s)
	case nil:
		return b == nil
	default:
		return tree.Same(a, b) || s != nil && s.Has(a) && s.Has(b) && reflect.TypeOf(a) == reflect.TypeOf(b) &&
			d.add(&d.paths)
	}
}

func (d *differences) betweenMembers(x, y map[string]any, s *shape.Shape) bool {
	for name, value := range x {
		other, has := y[name]
		if has && tree.Same(value, other) {
			continue
		}
		if !d.at(fieldpath.FieldNameElement(name), func() bool {
			if !has {
				return d.whole(value, member(s, name), &d.gone)
			}
			return d.between(value, other, member(s, name))
		}) {
			return false
		}
	}
	for name, value := range y {
		if _, ok := x[name]; ok {
			continue
		}
		if !d.at(fieldpath.FieldNameElement(name), func() bool { return d.whole(value, member(s, name), &d.paths) }) {
			return false
		}
	}
	return true
}

// betweenElements compares lists with keys. The keys of the shorter list must be a prefix of those
// of the longer one.
func (d *differences) betweenElements(x, y []any, s *shape.Shape) bool {
	if max(len(x), len(y)) > maxElements {
		return false
	}
	seen := make([]fieldpath.PathElement, 0, max(len(x), len(y)))
	for i := range max(len(x), len(y)) {
		var key fieldpath.PathElement
		var ok bool
		switch {
		case i >= len(x):
			key, ok = keyOf(s, y[i])
			ok = ok && d.at(key, func() bool { return d.whole(y[i], s.Items, &d.paths) })
		case i >= len(y):
			key, ok = keyOf(s, x[i])
			ok = ok && d.at(key, func() bool { return d.whole(x[i], s.Items, &d.gone) })
		default:
			key, ok = keyOf(s, x[i])
			other, alike := keyOf(s, y[i])
			ok = ok && alike && key.Equals(other) && d.at(key, func() bool { return d.between(x[i], y[i], s.Items) })
		}
		if !ok || slices.ContainsFunc(seen, key.Equals) {
			return false
		}
		seen = append(seen, key)
	}
	return true
}

// keyOf returns the key of an element of a list. ok is false if a key member is missing or is not a
// scalar with exact equality.
func keyOf(s *shape.Shape, element any) (fieldpath.PathElement, bool) {
	members, ok := element.(map[string]any)
	if !ok || s.Items == nil || s.Items.Atomic {
		return fieldpath.PathElement{}, false
	}
	key := make(value.FieldList, len(s.Keys))
	for i, k := range s.Keys {
		switch v := members[k.Name].(type) {
		case string, int64, bool:
			key[i] = value.Field{Name: k.Name, Value: value.NewValueInterface(v)}
		default: // it may have a default
			return fieldpath.PathElement{}, false
		}
	}
	return fieldpath.PathElement{Key: &key}, true
}

// whole adds the paths of a value that only one of the two objects has. It returns false if only
// the library can decide.
func (d *differences) whole(value any, s *shape.Shape, to *[]fieldpath.Path) bool {
	if s == nil {
		return false
	}
	switch v := value.(type) {
	case map[string]any:
		if s.Kind != shape.Object {
			return false
		}
		d.add(to)
		if s.Atomic {
			return fits(s, v)
		}
		for name, value := range v {
			if !d.at(fieldpath.FieldNameElement(name), func() bool { return d.whole(value, member(s, name), to) }) {
				return false
			}
		}
		return true
	case []any:
		if s.Kind != shape.List || !s.Atomic && (len(s.Keys) == 0 || len(v) > maxElements) {
			return false
		}
		d.add(to)
		if s.Atomic {
			return fits(s, v)
		}
		seen := make([]fieldpath.PathElement, 0, len(v))
		for _, element := range v {
			key, ok := keyOf(s, element)
			if !ok || slices.ContainsFunc(seen, key.Equals) || !d.at(key, func() bool {
				return d.whole(element, s.Items, to)
			}) {
				return false
			}
			seen = append(seen, key)
		}
		return true
	default:
		return s.Has(value) && d.add(to)
	}
}
