package managedfields

import (
	"slices"

	"kelson.dev/apiserver/fastpath/fieldset"
	"kelson.dev/apiserver/fastpath/shape"
)

// overlay merges an applied configuration into an object that already has all of its fields, so
// that only values change. It writes the set of the fields whose values differ. V is a value of the
// object, and R is how objects represent values.
type overlay[V any, R representation[V]] struct {
	*fieldset.Writer
	values R
	// reset lists the top-level fields that a write cannot set.
	reset []string
}

// representation reads and changes the values of an object. [mapValues] and [structValues]
// implement it.
type representation[V any] interface {
	// open returns the value to which a pointer points. opaque means that the value encodes itself:
	// it has no parts. ok is false for a nil pointer.
	open(v V) (inner V, opaque, ok bool)

	// isObject and isList report what an opened value is. Null is neither.
	isObject(v V) bool
	isList(v V) bool

	// blank reports whether an object has no members and a configuration without members does not
	// change it.
	blank(v V) bool
	// member returns a member of an object. ok is false if there is none.
	member(object V, name string) (member V, ok bool)
	// withMember returns the object with another value of a member. It changes object itself if
	// own is set, and otherwise a copy.
	withMember(object V, own bool, name string, member V) V
	// scalars merges the members of an object all of whose members are scalars. It does not apply
	// to other objects.
	scalars(w *fieldset.Writer, config map[string]any, object V, s *shape.Shape) (applies, changed, ok bool)

	length(list V) int
	element(list V, i int) V
	withElement(list V, own bool, i int, element V) V
	// key returns the key of an element of a list of shape s.
	key(element V, s *shape.Shape) (m fieldset.ElementKey, ok bool)

	// replace returns the value that replaces v, which is a scalar or owned as a whole. ok is false
	// if the library might consider the two equal.
	replace(config any, v V, s *shape.Shape, whole bool) (next V, changed, ok bool)
}

// merge returns object with the values of a configuration of the same apiVersion and kind. ok is
// false if the object lacks a field, or only the library can merge it.
func (o *overlay[V, R]) merge(config map[string]any, object V, s *shape.Shape) (next V, changed, ok bool) {
	return o.members(config, object, s, inRoot)
}

// place is the position of a walk in an object.
type place int

const (
	inRoot place = iota
	inMetadata
	inside
)

// fixed reports whether a write cannot change a field.
func (o *overlay[V, R]) fixed(name string, in place) bool {
	switch in {
	case inRoot:
		return slices.Contains(o.reset, name)
	case inMetadata:
		return fieldset.Identifies(name)
	}
	return false
}

func (o *overlay[V, R]) members(config map[string]any, object V, s *shape.Shape, in place) (next V, changed, ok bool) {
	next = object
	start, parts := o.Begin(false)
	base := o.PushNames(config)
	for i := range len(config) {
		name := o.Names[base+i]
		if in == inRoot && (name == "apiVersion" || name == "kind") {
			continue // the caller has compared them
		}
		member, ok := o.values.member(object, name)
		if !ok {
			return object, false, false
		}
		at := len(o.Raw)
		if !o.Name(name) {
			return object, false, false
		}
		memberShape, _ := s.Member(name)
		var after V
		var different bool
		if in == inRoot && name == "metadata" {
			after, different, ok = o.metadata(config[name], member, memberShape)
		} else {
			after, different, ok = o.value(config[name], member, memberShape)
		}
		switch {
		case !ok || different && o.fixed(name, in):
			return object, false, false
		case !different:
			o.Raw = o.Raw[:at]
		default:
			next = o.values.withMember(next, changed, name, after)
			changed = true
		}
	}
	o.Names = o.Names[:base]
	o.End(start, parts, false)
	return next, changed, true
}

func (o *overlay[V, R]) metadata(config any, v V, s *shape.Shape) (next V, changed, ok bool) {
	members, isMap := config.(map[string]any)
	if !isMap || s == nil || !o.values.isObject(v) {
		return v, false, false
	}
	return o.members(members, v, s, inMetadata)
}

// value merges a value into another.
func (o *overlay[V, R]) value(config any, v V, s *shape.Shape) (next V, changed, ok bool) {
	if s == nil || config == nil {
		return v, false, false
	}
	inner, opaque, ok := o.values.open(v)
	if !ok {
		return v, false, false
	}
	if opaque || s.Atomic {
		return o.replace(config, inner, s, true)
	}
	switch c := config.(type) {
	case map[string]any:
		if s.Kind != shape.Object || !o.values.isObject(inner) || len(c) == 0 && !o.values.blank(inner) {
			return v, false, false // the library removes unowned members
		}
		if applies, changed, ok := o.values.scalars(o.Writer, c, inner, s); applies {
			return inner, changed, ok
		}
		return o.members(c, inner, s, inside)
	case []any:
		if s.Kind != shape.List || !o.values.isList(inner) {
			return v, false, false
		}
		return o.elements(c, inner, s)
	}
	return o.replace(config, inner, s, false)
}

func (o *overlay[V, R]) replace(config any, v V, s *shape.Shape, whole bool) (next V, changed, ok bool) {
	next, changed, ok = o.values.replace(config, v, s, whole)
	if changed && ok {
		o.Leaf()
	}
	return next, changed, ok
}

// elements merges elements into a list that has them in the same order, possibly with others in
// between.
func (o *overlay[V, R]) elements(config []any, list V, s *shape.Shape) (next V, changed, ok bool) {
	next = list
	if s.Items == nil {
		return list, false, false
	}
	base := len(o.Keys)
	if !o.align(config, list, s) {
		return list, false, false
	}
	start, parts := o.Begin(false)
	for i := base; i < base+len(config); i++ {
		m, at := o.Keys[i], len(o.Raw)
		if !o.Element(&m, s.Keys) {
			return list, false, false
		}
		after, different, ok := o.value(config[m.At], o.values.element(list, m.In), s.Items)
		if !ok {
			return list, false, false
		}
		if !different {
			o.Raw = o.Raw[:at]
			continue
		}
		next = o.values.withElement(next, changed, m.In, after)
		changed = true
	}
	o.Keys = o.Keys[:base]
	o.End(start, parts, false)
	return next, changed, true
}

// align adds the sorted keys of a configuration's elements, with the positions of the same elements
// in a list. ok is false if the list does not have them in the same order.
func (o *overlay[V, R]) align(config []any, list V, s *shape.Shape) (ok bool) {
	base, n := len(o.Keys), o.values.length(list)
	if n > maxElements {
		return false
	}
	for i := range n {
		m, ok := o.values.key(o.values.element(list, i), s)
		if !ok || slices.ContainsFunc(o.Keys[base:], func(other fieldset.ElementKey) bool {
			return other.Compare(m) == 0
		}) {
			return false
		}
		o.Keys = append(o.Keys, m)
	}
	at := 0
	for i, element := range config {
		m, ok := fieldset.ElementKeyOf(element, s)
		if !ok {
			return false
		}
		for at < n && o.Keys[base+at].Compare(m) != 0 {
			at++
		}
		if at == n {
			return false
		}
		// this overwrites only keys that have been read: i is at most at
		m.At, m.In = i, at
		o.Keys[base+i] = m
		at++
	}
	o.Keys = o.Keys[:base+len(config)]
	return o.SortKeys(base)
}
