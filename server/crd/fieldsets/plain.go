package fieldsets

import (
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"kelson.dev/operator/tree"
)

// plainly lists the fields that have other values in b, if that is all: nothing comes or goes, and the lists that are not as they were are owned
// as a whole. This is what most writes are. Of metadata it looks over what is nobody's.
func (m *Manager) plainly(a, b map[string]any) (paths []fieldpath.Path, ok bool) {
	if m.shape == nil || len(a) != len(b) {
		return nil, false
	}
	for name, was := range a {
		is, ok := b[name]
		switch {
		case !ok:
			return nil, false
		case name == "apiVersion" || name == "kind":
		case name == "metadata":
			if !sameMetadata(was, is) {
				return nil, false
			}
		default:
			d := differences{path: fieldpath.Path{fieldpath.FieldNameElement(name)}, paths: paths}
			if !d.between(was, is, m.shape.member(name)) {
				return nil, false
			}
			paths = d.paths
		}
	}
	return paths, true
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

// differences are the paths of values that are not as they were.
type differences struct {
	path  fieldpath.Path
	paths []fieldpath.Path
}

func (d *differences) add() bool {
	d.paths = append(d.paths, slices.Clone(d.path))
	return true
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
			return tree.Same(x, y) || len(x) > 0 && len(y) > 0 && d.add()
		case len(x) != len(y):
			return false
		}
		for name, value := range x {
			other, ok := y[name]
			if !ok {
				return false
			}
			d.path = append(d.path, fieldpath.FieldNameElement(name))
			if !d.between(value, other, s.member(name)) {
				return false
			}
			d.path = d.path[:len(d.path)-1]
		}
		return true
	case []any:
		y, ok := b.([]any)
		return ok && (tree.Same(x, y) || s != nil && s.kind == list && s.atomic && len(x) > 0 && len(y) > 0 && d.add())
	case nil:
		return b == nil
	default:
		return tree.Same(a, b) || s != nil && s.has(a) && s.has(b) && reflect.TypeOf(a) == reflect.TypeOf(b) && d.add()
	}
}

// fresh gives the fields of a new object, all of which are of the one who made it, or of an applied configuration: who applies owns no maps, only
// what is in them. ok is false if it is not made of plain parts.
func (m *Manager) fresh(object map[string]any, applied bool) (*fields, bool) {
	if m.shape == nil {
		return nil, false
	}
	var space [4 << 10]byte
	w := writer{raw: append(space[:0], '{'), applied: applied}
	for _, name := range names(object) {
		switch {
		case name == "apiVersion" || name == "kind" || slices.Contains(m.Reset, name):
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

func names(object map[string]any) []string {
	list := make([]string, 0, len(object))
	for name := range object {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
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
		if len(v) == 0 || s.atomic {
			break
		}
		w.raw = append(w.raw, '{')
		if !w.applied {
			w.raw = append(w.raw, `".":{}`...)
		}
		for _, name := range names(v) {
			if !w.member(name, v[name], s.member(name)) {
				return false
			}
		}
		w.raw = append(w.raw, '}')
		return true
	case []any:
		if s.kind != list || !s.atomic {
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
	if !slices.ContainsFunc(names(metadata), func(name string) bool { return !identifying[name] }) {
		return true
	}
	if !w.name("metadata") {
		return false
	}
	w.raw = append(w.raw, '{')
	for _, name := range names(metadata) {
		if identifying[name] {
			continue
		}
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
