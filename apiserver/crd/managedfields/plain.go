package managedfields

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"kelson.dev/operator/tree"
)

// plainly returns how b differs from a: the fields that are new or have other values, and those that are gone. ok is false unless
// the difference consists of maps, scalars, atomic lists, and lists with keys whose elements keep their order, as most differences
// do. It ignores the unowned fields of metadata and the fields in Reset: metadata may differ then, and other fields may be missing.
func (m *Manager) plainly(a, b map[string]any) (d *differences, ok bool) {
	if m.shape == nil {
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
				return d.whole(was, m.shape.member(name), &d.gone)
			}
			return d.between(was, is, m.shape.member(name))
		}) {
			return nil, false
		}
	}
	for name, is := range b {
		if _, ok := a[name]; ok {
			continue
		}
		if name == "metadata" || !d.at(fieldpath.FieldNameElement(name), func() bool { return d.whole(is, m.shape.member(name), &d.paths) }) {
			return nil, false
		}
	}
	return d, true
}

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
		if identifying[name] {
			continue
		}
		others++
		if other, ok := y[name]; !ok || !tree.Same(value, other) {
			return false
		}
	}
	for name := range y {
		if !identifying[name] {
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

// between adds the differences of two values at the current path. It returns false if only the library can tell.
func (d *differences) between(a, b any, s *shape) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		switch {
		case !ok || s != nil && s.kind != object:
			return false
		case s == nil:
			return tree.Same(x, y)
		case s.atomic:
			return tree.Same(x, y) || len(x) > 0 && len(y) > 0 && s.takes(y) && d.add(&d.paths)
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
		case s == nil || s.kind != list || len(x) == 0 || len(y) == 0:
			return false
		case s.atomic:
			return s.takes(y) && d.add(&d.paths)
		}
		return s.keys != nil && d.betweenElements(x, y, s)
	case nil:
		return b == nil
	default:
		return tree.Same(a, b) || s != nil && s.has(a) && s.has(b) && reflect.TypeOf(a) == reflect.TypeOf(b) && d.add(&d.paths)
	}
}

func (d *differences) betweenMembers(x, y map[string]any, s *shape) bool {
	for name, value := range x {
		other, has := y[name]
		if has && tree.Same(value, other) {
			continue
		}
		if !d.at(fieldpath.FieldNameElement(name), func() bool {
			if !has {
				return d.whole(value, s.member(name), &d.gone)
			}
			return d.between(value, other, s.member(name))
		}) {
			return false
		}
	}
	for name, value := range y {
		if _, ok := x[name]; ok {
			continue
		}
		if !d.at(fieldpath.FieldNameElement(name), func() bool { return d.whole(value, s.member(name), &d.paths) }) {
			return false
		}
	}
	return true
}

// betweenElements compares lists with keys. The shorter list must be a prefix of the longer one, as far as keys are concerned.
func (d *differences) betweenElements(x, y []any, s *shape) bool {
	seen := make([]fieldpath.PathElement, 0, max(len(x), len(y)))
	for i := range max(len(x), len(y)) {
		var key fieldpath.PathElement
		var ok bool
		switch {
		case i >= len(x):
			key, ok = s.key(y[i])
			ok = ok && d.at(key, func() bool { return d.whole(y[i], s.items, &d.paths) })
		case i >= len(y):
			key, ok = s.key(x[i])
			ok = ok && d.at(key, func() bool { return d.whole(x[i], s.items, &d.gone) })
		default:
			key, ok = s.key(x[i])
			other, alike := s.key(y[i])
			ok = ok && alike && key.Equals(other) && d.at(key, func() bool { return d.between(x[i], y[i], s.items) })
		}
		if !ok || slices.ContainsFunc(seen, key.Equals) {
			return false
		}
		seen = append(seen, key)
	}
	return true
}

// key returns the key of an element of a list. ok is false if a key member is missing or is not a scalar with exact equality.
func (s *shape) key(element any) (fieldpath.PathElement, bool) {
	members, ok := element.(map[string]any)
	if !ok || s.items == nil || s.items.atomic {
		return fieldpath.PathElement{}, false
	}
	key := make(value.FieldList, len(s.keys))
	for i, name := range s.keys {
		switch v := members[name].(type) {
		case string, int64, bool:
			key[i] = value.Field{Name: name, Value: value.NewValueInterface(v)}
		default: // it may have a default
			return fieldpath.PathElement{}, false
		}
	}
	return fieldpath.PathElement{Key: &key}, true
}

// whole adds the paths of a value that only one of the two objects has. It returns false if only the library can tell.
func (d *differences) whole(value any, s *shape, to *[]fieldpath.Path) bool {
	if s == nil {
		return false
	}
	switch v := value.(type) {
	case map[string]any:
		if s.kind != object {
			return false
		}
		d.add(to)
		if s.atomic {
			return s.takes(v)
		}
		for name, value := range v {
			if !d.at(fieldpath.FieldNameElement(name), func() bool { return d.whole(value, s.member(name), to) }) {
				return false
			}
		}
		return true
	case []any:
		if s.kind != list || !s.atomic && s.keys == nil {
			return false
		}
		d.add(to)
		if s.atomic {
			return s.takes(v)
		}
		seen := make([]fieldpath.PathElement, 0, len(v))
		for _, element := range v {
			key, ok := s.key(element)
			if !ok || slices.ContainsFunc(seen, key.Equals) || !d.at(key, func() bool { return d.whole(element, s.items, to) }) {
				return false
			}
			seen = append(seen, key)
		}
		return true
	default:
		return s.has(value) && d.add(to)
	}
}

// fresh returns the fields that the creator of an object owns, or, with applied, the applier of a configuration: an applier owns the
// members of a map but not the map. ok is false if the object has parts that only the library understands, or that violate the schema,
// for which the library has an error.
func (m *Manager) fresh(object map[string]any, applied bool) (*fields, bool) {
	if m.shape == nil {
		return nil, false
	}
	var space [4 << 10]byte
	w := writer{raw: append(space[:0], '{'), applied: applied}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		switch {
		case name == "apiVersion" || name == "kind":
		case slices.Contains(m.Reset, name): // unowned, but the library checks its types
			before := len(w.raw)
			if name != "metadata" && !w.member(name, object[name], m.shape.member(name)) {
				return nil, false
			}
			w.raw = w.raw[:before]
		case name == "metadata":
			if !w.metadata(object[name]) {
				return nil, false
			}
		case !w.member(name, object[name], m.shape.member(name)):
			return nil, false
		}
	}
	if len(w.raw) == 1 {
		return nil, false
	}
	f, err := m.cache.read(append(w.raw, '}'))
	return f, err == nil
}

// writer encodes a field set.
type writer struct {
	raw     []byte
	applied bool
}

func (w *writer) name(name string) bool {
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r >= 0x7f || strings.ContainsRune(`"\<>&`, r) }) {
		return false
	}
	if last := w.raw[len(w.raw)-1]; last != '{' {
		w.raw = append(w.raw, ',')
	}
	w.raw = append(w.raw, `"f:`...)
	w.raw = append(w.raw, name...)
	w.raw = append(w.raw, `":`...)
	return true
}

func (w *writer) member(name string, value any, s *shape) bool {
	if s == nil || !w.name(name) {
		return false
	}
	switch v := value.(type) {
	case map[string]any:
		if s.kind != object {
			return false
		}
		if s.atomic && !s.takes(v) {
			return false
		}
		if len(v) == 0 || s.atomic {
			break
		}
		w.raw = append(w.raw, '{')
		if !w.applied {
			w.raw = append(w.raw, `".":{}`...)
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !w.member(name, v[name], s.member(name)) {
				return false
			}
		}
		w.raw = append(w.raw, '}')
		return true
	case []any:
		if s.kind != list || !s.atomic || !s.takes(v) {
			return false
		}
	default:
		if !s.has(v) {
			return false
		}
	}
	w.raw = append(w.raw, "{}"...)
	return true
}

// The shapes of a label and of labels and annotations.
var (
	word  = &shape{kind: text}
	words = &shape{kind: object, others: word}
)

func (w *writer) metadata(value any) bool {
	metadata, ok := value.(map[string]any)
	if !ok {
		return false
	}
	owned := slices.DeleteFunc(slices.Sorted(maps.Keys(metadata)), func(name string) bool { return identifying[name] })
	if len(owned) == 0 {
		return true
	}
	if !w.name("metadata") {
		return false
	}
	w.raw = append(w.raw, '{')
	for _, name := range owned {
		s := word
		switch name {
		case "labels", "annotations":
			s = words
		case "generateName":
		default:
			return false
		}
		if !w.member(name, metadata[name], s) {
			return false
		}
	}
	w.raw = append(w.raw, '}')
	return true
}
