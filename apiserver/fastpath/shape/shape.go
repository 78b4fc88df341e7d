// Package shape describes schemas as the fast paths see them: kinds of values, lists with keys,
// maps and lists that are owned as a whole, and defaults.
//
//	s := shape.FromStructural(schema)       // the schema of a CustomResourceDefinition
//	s := shape.FromTyped(parseableType)     // the schema of a built-in kind
//	member, declared := s.Member("spec")
//
// Both adapters produce the same type, so that a fast path is written once. A part of a schema that
// only the libraries understand has no Shape: nil. Fast paths leave objects with values there to
// the library.
package shape

// Shape is the shape of a value. It is immutable once an adapter has returned it. nil is a shape
// that only the libraries understand.
type Shape struct {
	Kind   Kind
	Atomic bool // lists and maps: owned as a whole
	// Mixed means that the schema of a scalar also allows a list or a map.
	Mixed bool
	// Keyed means that the value is or contains a list that is not atomic: a set or a list with
	// keys.
	Keyed bool
	Keys  []Key  // lists: the key members of the elements, sorted by name; none for sets
	Items *Shape // lists
	// Members are the members that the schema declares.
	Members map[string]*Shape
	// Others is the shape of members that are not in Members; nil if there is none.
	Others *Shape
	// Free are the members that may have any content: they have no Shape. The Kind is Object if
	// they must be maps, otherwise Unknown.
	Free map[string]Kind
	// Defaulted are the names of the members that have a default.
	Defaulted []string
}

// Key is a key member of the elements of a list.
type Key struct {
	Name string
	// Default is the value of the key in elements without the member: a string, an int64, or nil if
	// there is none.
	Default any
}

// Kind is the kind of a value.
type Kind int

// The kinds. Those after List are scalars.
const (
	Unknown Kind = iota // a kind that the adapters do not support
	Object
	List
	Text
	Integer
	Number
	Boolean
	IntegerOrText
	AnyScalar
)

// Member returns the shape of a member, and whether the schema declares the member. s may be nil.
func (s *Shape) Member(name string) (member *Shape, declared bool) {
	if s == nil {
		return nil, false
	}
	if m, ok := s.Members[name]; ok {
		return m, true
	}
	return s.Others, false
}

// Leaf reports whether the value has no parts that managers can own.
func (s *Shape) Leaf() bool { return s.Kind > List || s.Atomic }

// Has reports whether a scalar of a tree (a string, int64, float64 or bool) has the shape's kind.
func (s *Shape) Has(value any) bool {
	switch value.(type) {
	case string:
		return s.Kind == Text || s.Kind == IntegerOrText || s.Kind == AnyScalar
	case int64:
		return s.Kind == Integer || s.Kind == Number || s.Kind == IntegerOrText || s.Kind == AnyScalar
	case float64:
		return s.Kind == Number || s.Kind == AnyScalar
	case bool:
		return s.Kind == Boolean || s.Kind == AnyScalar
	}
	return false
}

// markKeyed sets Keyed on all shapes that contain a keyed one. Shapes may be recursive.
func markKeyed(all []*Shape) {
	for changed := true; changed; {
		changed = false
		for _, s := range all {
			if !s.Keyed && s.containsKeyed() {
				s.Keyed, changed = true, true
			}
		}
	}
}

func (s *Shape) containsKeyed() bool {
	if s.Items.isKeyed() || s.Others.isKeyed() {
		return true
	}
	for _, member := range s.Members {
		if member.isKeyed() {
			return true
		}
	}
	return false
}

func (s *Shape) isKeyed() bool { return s != nil && s.Keyed }
