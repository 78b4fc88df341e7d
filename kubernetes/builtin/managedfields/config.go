package managedfields

import "slices"

// configuration writes the fields that the manager of an applied configuration owns. ok is false if the configuration has parts that
// only the library understands, or that violate the schema, for which the library has an error.
func (w *writer) configuration(config map[string]any, s *Shape, reset []string) (ok bool) {
	_, ok = w.within(false, func() bool {
		return w.sorted(config, func(name string) bool {
			value := func() (bool, bool) { return w.configured(config[name], s.members[name], false) }
			switch {
			case name == "apiVersion" || name == "kind":
				return true
			case name == "metadata":
				metadata, isMap := config[name].(map[string]any)
				return isMap && s.members[name] != nil && w.member(name, func() (bool, bool) { return w.configuredMetadata(metadata, s.members[name]) })
			case slices.Contains(reset, name):
				return w.unwritten(value)
			}
			return w.member(name, value)
		})
	})
	return ok && len(w.raw) > 0
}

func (w *writer) configuredMetadata(metadata map[string]any, s *Shape) (owned, ok bool) {
	return w.within(false, func() bool {
		return w.sorted(metadata, func(name string) bool {
			value := func() (bool, bool) { return w.configured(metadata[name], s.members[name], false) }
			switch {
			case name == "managedFields":
				return false
			case identifying[name]:
				return w.unwritten(value)
			}
			return w.member(name, value)
		})
	})
}

// sorted calls each with the names of a map, sorted.
func (w *writer) sorted(members map[string]any, each func(name string) bool) bool {
	base := len(w.names)
	for name := range members {
		w.names = append(w.names, name)
	}
	slices.Sort(w.names[base:])
	for i := range len(members) {
		if !each(w.names[base+i]) {
			return false
		}
	}
	w.names = w.names[:base]
	return true
}

// configured writes the owned parts of a value. self says whether the value itself is owned even if it has parts.
func (w *writer) configured(value any, s *Shape, self bool) (owned, ok bool) {
	if s == nil {
		return false, false
	}
	if s.atomic {
		if !w.takes(value, s) {
			return false, false
		}
		w.leaf()
		return true, true
	}
	switch v := value.(type) {
	case nil:
		w.leaf()
		return true, true
	case map[string]any:
		if s.kind != object {
			return false, false
		}
		if len(v) == 0 {
			w.leaf()
			return true, true
		}
		return w.configuredMembers(v, s, self)
	case []any:
		if s.kind != list || s.items == nil {
			return false, false
		}
		return w.configuredElements(v, s, self)
	}
	if !s.has(value) {
		return false, false
	}
	w.leaf()
	return true, true
}

func (w *writer) configuredMembers(v map[string]any, s *Shape, self bool) (owned, ok bool) {
	start, parts := w.begin(self)
	base := len(w.names)
	for name := range v {
		w.names = append(w.names, name)
	}
	slices.Sort(w.names[base:])
	for i := range len(v) {
		name := w.names[base+i]
		at := len(w.raw)
		if !w.name(name) {
			return false, false
		}
		member, declared := s.member(name)
		owned, ok := w.configured(v[name], member, !declared)
		if !ok {
			return false, false
		}
		if !owned {
			w.raw = w.raw[:at]
		}
	}
	w.names = w.names[:base]
	return w.end(start, parts, self), true
}

func (w *writer) configuredElements(v []any, s *Shape, self bool) (owned, ok bool) {
	start, parts := w.begin(self)
	base := len(w.marks)
	if !s.markAll(w, v) {
		return false, false
	}
	for i := base; i < base+len(v); i++ {
		m := &w.marks[i]
		at := m.at
		if !w.element(m, s.keys) {
			return false, false
		}
		if _, ok := w.configured(v[at], s.items, true); !ok {
			return false, false
		}
	}
	w.marks = w.marks[:base]
	return w.end(start, parts, self), true
}

// takes reports whether all parts of a value that is owned as a whole have the kinds of the schema.
func (w *writer) takes(value any, s *Shape) bool {
	switch v := value.(type) {
	case nil:
		return s != nil
	case map[string]any:
		if s == nil || s.kind != object {
			return false
		}
		for name, value := range v {
			if member, _ := s.member(name); !w.takes(value, member) {
				return false
			}
		}
		return true
	case []any:
		if s == nil || s.kind != list {
			return false
		}
		if !s.atomic {
			base := len(w.marks)
			ok := s.markAll(w, v)
			w.marks = w.marks[:base]
			if !ok {
				return false
			}
		}
		for _, element := range v {
			if !w.takes(element, s.items) {
				return false
			}
		}
		return true
	}
	return s != nil && s.has(value)
}

// markAll marks the elements of a list, in order.
func (s *Shape) markAll(w *writer, elements []any) bool {
	base := len(w.marks)
	for i, element := range elements {
		m, ok := s.mark(element)
		if !ok {
			return false
		}
		m.at = i
		w.marks = append(w.marks, m)
	}
	return w.sortMarks(base)
}

// mark returns the key of an element of a list.
func (s *Shape) mark(element any) (m mark, ok bool) {
	if len(s.keys) == 0 {
		m.key[0], ok = scalarOf(element)
		return m, ok
	}
	members, ok := element.(map[string]any)
	if !ok || len(s.keys) > mostKeys {
		return m, false
	}
	for i, k := range s.keys {
		value, has := members[k.name]
		if !has {
			m.key[i] = k.fallback
		} else if m.key[i], ok = scalarOf(value); !ok {
			return m, false
		}
		if m.key[i].kind == unknown {
			return m, false
		}
	}
	return m, true
}
