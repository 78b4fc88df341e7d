package marker

import (
	"go/token"
	"strings"
)

// Target is a set of positions that a marker may have.
type Target uint8

// The positions of markers.
const (
	OnPackage Target = 1 << iota
	OnType
	OnField
	Anywhere = OnPackage | OnType | OnField
)

func (t Target) String() string {
	var names []string
	for i, n := range []string{"a package", "a type", "a field"} {
		if t&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, " or ")
}

// Kind is the type of an argument.
type Kind uint8

// The kinds of arguments, with the Go types of their values.
const (
	None   Kind = iota // no value at all
	String             // string
	Int                // int64
	Number             // float64
	Bool               // bool
	// string, int64, float64, bool, []any or map[string]any, depending on the text
	Any
	Strings // []string
	List    // []any
	Raw     // string: the rest of the line
	JSON    // the value that encoding/json decodes
	Tag     // *Marker: another marker, with its "+"
)

func (k Kind) String() string {
	return [...]string{"no value", "a string", "an integer", "a number", "true or false", "a value",
		"a list of strings", "a list", "text", "JSON", "a marker"}[k]
}

// Arg is a named argument.
type Arg struct {
	Name     string
	Kind     Kind
	Optional bool
}

// Definition defines the syntax of a marker. It has a Value, or Args, or neither.
type Definition struct {
	Name     string // without "+"; a trailing "*" matches any suffix
	On       Target
	Value    Kind
	Optional bool // the value can be omitted
	Args     []Arg
	// Parens are the arguments in parentheses after the name of some k8s: markers: one without a
	// name, or named ones.
	Parens []Arg
	// AnyParens allows other named arguments in parentheses too.
	AnyParens bool
	// Inert markers are accepted, but no generator uses them.
	Inert bool

	Doc     string // description for the reference
	Example string // text after the name, for the reference
}

func (d *Definition) arg(name string) *Arg {
	for i := range d.Args {
		if d.Args[i].Name == name {
			return &d.Args[i]
		}
	}
	return nil
}

// Marker is a parsed marker. Its arguments have the types that its definition declares.
type Marker struct {
	Name  string // as in the definition
	Pos   token.Position
	Value any
	Raw   string // the text after "=", as written
	args  map[string]any
	order []string // of the arguments in parentheses
}

// Text returns the value of a String, Raw or Any marker, or "".
func (m *Marker) Text() string { s, _ := m.Value.(string); return s }

// ArgNames returns the names of the arguments in parentheses, in source order.
func (m *Marker) ArgNames() []string { return m.order }

// Has reports whether a named argument was given.
func (m *Marker) Has(arg string) bool { _, ok := m.args[arg]; return ok }

// String returns a named argument, or "" if it was not given.
func (m *Marker) String(arg string) string { s, _ := m.args[arg].(string); return s }

// Strings returns a named argument, or nil if it was not given.
func (m *Marker) Strings(arg string) []string { s, _ := m.args[arg].([]string); return s }

// Int returns a named argument, or 0 if it was not given.
func (m *Marker) Int(arg string) int64 { i, _ := m.args[arg].(int64); return i }

// Bool returns a named argument, or nil if it was not given.
func (m *Marker) Bool(arg string) *bool {
	if b, ok := m.args[arg].(bool); ok {
		return &b
	}
	return nil
}

// Markers are the markers of one package, type or field, in source order.
type Markers []*Marker

// Get returns the first marker with the name, or nil.
func (ms Markers) Get(name string) *Marker {
	for _, m := range ms {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// Has reports whether there is a marker with one of the names.
func (ms Markers) Has(names ...string) bool {
	for _, name := range names {
		if ms.Get(name) != nil {
			return true
		}
	}
	return false
}
