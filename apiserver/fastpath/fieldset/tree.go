package fieldset

import (
	"slices"

	"kelson.dev/apiserver/fastpath/shape"
)

// Options describe the ownership of a tree.
type Options struct {
	// Created means that a manager owns the tree because it created the object: it owns maps and
	// lists as well as their parts. Otherwise it has applied the tree, and owns only the parts.
	Created bool
	// With Nulls, nulls outside of metadata are accepted and owned.
	Nulls bool
	// Reset lists the top-level fields that the write cannot set. No manager owns them.
	Reset []string
}

// Object writes the fields of an object that its manager owns. ok is false if the object has parts
// that only the library understands, or that violate the schema, for which the library has an
// error. The caller checks apiVersion and kind.
func (w *Writer) Object(object map[string]any, s *shape.Shape, o Options) (ok bool) {
	if s == nil || s.Kind != shape.Object {
		return false
	}
	w.created, w.nulls = o.Created, o.Nulls
	_, ok = w.Within(false, func() bool {
		return w.Sorted(object, func(name string) bool {
			value := func() (bool, bool) { return w.value(object[name], s.Members[name], o.Created) }
			switch {
			case name == "apiVersion" || name == "kind":
				return true
			case name == "metadata":
				if slices.Contains(o.Reset, name) {
					return true
				}
				metadata, isMap := object[name].(map[string]any)
				return isMap && s.Members[name] != nil && w.Member(name, func() (bool, bool) {
					return w.metadata(metadata, s.Members[name])
				})
			case slices.Contains(o.Reset, name): // the library checks its types
				return w.Unwritten(value)
			}
			return w.Member(name, value)
		})
	})
	return ok && len(w.Raw) > 0
}

func (w *Writer) metadata(metadata map[string]any, s *shape.Shape) (owned, ok bool) {
	return w.Within(false, func() bool {
		return w.Sorted(metadata, func(name string) bool {
			value := func() (bool, bool) { return w.value(metadata[name], s.Members[name], w.created) }
			switch {
			case name == "managedFields":
				return false
			case Identifies(name):
				return s.Members[name] != nil && (metadata[name] == nil || w.Unwritten(value))
			}
			return w.Member(name, value)
		})
	})
}

// Sorted calls each with the names of a map, sorted.
func (w *Writer) Sorted(members map[string]any, each func(name string) bool) bool {
	base := w.PushNames(members)
	for i := range len(members) {
		if !each(w.Names[base+i]) {
			return false
		}
	}
	w.Names = w.Names[:base]
	return true
}

// PushNames adds the names of a map to w.Names, sorted. They start at base; the caller removes
// them.
func (w *Writer) PushNames(members map[string]any) (base int) {
	base = len(w.Names)
	for name := range members {
		w.Names = append(w.Names, name)
	}
	slices.Sort(w.Names[base:])
	return base
}

// value writes the owned parts of a value. If self is set, the value itself is owned even if it has
// parts.
func (w *Writer) value(value any, s *shape.Shape, self bool) (owned, ok bool) {
	if s == nil {
		return false, false
	}
	if s.Atomic {
		if !w.fits(value, s) {
			return false, false
		}
		w.Leaf()
		return true, true
	}
	switch v := value.(type) {
	case nil:
		w.Leaf()
		return true, w.nulls
	case map[string]any:
		if s.Kind != shape.Object {
			return false, false
		}
		if len(v) == 0 {
			w.Leaf()
			return true, true
		}
		return w.members(v, s, self)
	case []any:
		if s.Kind != shape.List || s.Items == nil {
			return false, false
		}
		return w.elements(v, s, self)
	}
	if !s.Has(value) {
		return false, false
	}
	w.Leaf()
	return true, true
}

func (w *Writer) members(v map[string]any, s *shape.Shape, self bool) (owned, ok bool) {
	start, parts := w.Begin(self)
	base := w.PushNames(v)
	for i := range len(v) {
		name := w.Names[base+i]
		at := len(w.Raw)
		if !w.Name(name) {
			return false, false
		}
		member, declared := s.Member(name)
		owned, ok := w.value(v[name], member, w.created || !declared)
		if !ok {
			return false, false
		}
		if !owned {
			w.Raw = w.Raw[:at]
		}
	}
	w.Names = w.Names[:base]
	return w.End(start, parts, self), true
}

func (w *Writer) elements(v []any, s *shape.Shape, self bool) (owned, ok bool) {
	start, parts := w.Begin(self)
	base := len(w.Keys)
	if !w.addKeys(v, s) {
		return false, false
	}
	for i := base; i < base+len(v); i++ {
		m := &w.Keys[i]
		at := m.At
		if !w.Element(m, s.Keys) {
			return false, false
		}
		if _, ok := w.value(v[at], s.Items, true); !ok {
			return false, false
		}
	}
	w.Keys = w.Keys[:base]
	return w.End(start, parts, self), true
}

// fits reports whether all parts of a value that is owned as a whole have the kinds of the schema.
func (w *Writer) fits(value any, s *shape.Shape) bool {
	if s == nil {
		return false
	}
	switch v := value.(type) {
	case nil:
		return w.nulls
	case map[string]any:
		if s.Kind != shape.Object {
			return false
		}
		for name, value := range v {
			if member, _ := s.Member(name); !w.fits(value, member) {
				return false
			}
		}
		return true
	case []any:
		if s.Kind != shape.List {
			return false
		}
		if !s.Atomic {
			base := len(w.Keys)
			ok := w.addKeys(v, s)
			w.Keys = w.Keys[:base]
			if !ok {
				return false
			}
		}
		for _, element := range v {
			if !w.fits(element, s.Items) {
				return false
			}
		}
		return true
	}
	return s.Has(value)
}
