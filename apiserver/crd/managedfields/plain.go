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

// plainly tells what is otherwise in b: which fields have other values or are new, and which are gone, if all of it is made of plain parts: maps,
// values, lists that are owned as a whole, and lists whose elements have keys and stay in their order. This is what most writes are. Of metadata it looks over
// what is nobody's. What a write can't set does not count: its metadata may be any, and other fields may be left out.
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

// differences are the paths of what is not as it was.
type differences struct {
	path  fieldpath.Path
	paths []fieldpath.Path // of what is new or has another value
	gone  []fieldpath.Path
}

func (d *differences) add(to *[]fieldpath.Path) bool {
	*to = append(*to, slices.Clone(d.path))
	return true
}

// at does something with the path one element longer.
func (d *differences) at(element fieldpath.PathElement, do func() bool) bool {
	d.path = append(d.path, element)
	ok := do()
	d.path = d.path[:len(d.path)-1]
	return ok
}

// between is false where it can't tell.
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

// betweenElements compares lists of elements with keys. Those that are in both must stand in the same order at the beginning of both.
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

// key is what an element of a list is known by.
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

// whole adds the paths of a value that is there on one side only.
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

// fresh gives the fields of a new object, all of which are of the one who made it, or of an applied configuration: who applies owns no maps, only
// what is in them. ok is false if it is not made of plain parts, or they are of other kinds than the schema says, which the library has an error for.
func (m *Manager) fresh(object map[string]any, applied bool) (*fields, bool) {
	if m.shape == nil {
		return nil, false
	}
	var space [4 << 10]byte
	w := writer{raw: append(space[:0], '{'), applied: applied}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		switch {
		case name == "apiVersion" || name == "kind":
		case slices.Contains(m.Reset, name): // nobody's, but the library would look at it
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

// writer writes a field set, encoded.
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

// What labels and annotations are.
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
