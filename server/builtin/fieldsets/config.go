package fieldsets

import "slices"

// configuration writes what is owned by whoever applies a configuration. ok is false if it is not made of plain parts, or they are not of the kinds that
// the schema says, for which the library has an error.
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

// sorted calls each with the names of a map, in order.
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

// configured writes what is owned of a value; self says whether it is owned even if it has parts.
func (w *writer) configured(value any, s *Shape, self bool) (owned, ok bool) {
	if s == nil {
		return false, false
	}
	switch v := value.(type) {
	case nil:
		w.leaf()
		return true, true
	case map[string]any:
		parts := func() bool {
			return w.sorted(v, func(name string) bool {
				member, declared := s.member(name)
				return w.member(name, func() (bool, bool) { return w.configured(v[name], member, !declared) })
			})
		}
		switch {
		case s.kind != object:
			return false, false
		case s.atomic && !w.unwritten(func() (bool, bool) { return w.within(true, parts) }):
			return false, false
		case s.atomic || len(v) == 0:
			w.leaf()
			return true, true
		}
		return w.within(self, parts)
	case []any:
		switch {
		case s.kind != list || s.items == nil:
			return false, false
		case s.atomic:
			for _, element := range v {
				if !w.unwritten(func() (bool, bool) { return w.configured(element, s.items, true) }) {
					return false, false
				}
			}
			w.leaf()
			return true, true
		}
		return w.within(self, func() bool {
			base := len(w.marks)
			for i, element := range v {
				m, ok := s.mark(element)
				if !ok {
					return false
				}
				m.at = i
				w.marks = append(w.marks, m)
			}
			return w.elements(base, s.keys, func(m mark) (bool, bool) { return w.configured(v[m.at], s.items, true) })
		})
	}
	if !s.has(value) {
		return false, false
	}
	w.leaf()
	return true, true
}

// mark gives what an element of a list is known by.
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
