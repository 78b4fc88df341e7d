package marker

import (
	"go/token"
	"strings"
)

// Target is where a marker may stand; a definition may name several.
type Target uint8

// The places.
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

// The kinds, and the Go type of their values.
const (
	None    Kind = iota // no value at all
	String              // string
	Int                 // int64
	Number              // float64
	Bool                // bool
	Any                 // string, int64, float64, bool, []any or map[string]any, as the text looks
	Strings             // []string
	List                // []any
	Raw                 // string: the rest of the line
	JSON                // what encoding/json makes of it
	Tag                 // *Marker: another marker, with its "+"
)

func (k Kind) String() string {
	return [...]string{"no value", "a string", "an integer", "a number", "true or false", "a value", "a list of strings", "a list", "text", "JSON", "a marker"}[k]
}

// Arg is a named argument.
type Arg struct {
	Name     string
	Kind     Kind
	Optional bool
}

// Definition is what a registry knows of a marker. It has either a Value, or Args, or neither.
type Definition struct {
	Name     string // without "+"; a trailing "*" stands for any rest
	On       Target
	Value    Kind
	Optional bool // the value may be left out
	Args     []Arg
	// Parens are arguments in parentheses behind the name, which some k8s: markers have: one without a name, or named ones.
	Parens []Arg
	// AnyParens allows further named ones.
	AnyParens bool
	// Inert says that the marker is understood, but no emitter here acts on it.
	Inert bool

	Doc     string // a sentence or two for the reference
	Example string // what may follow the name, for the reference
}

func (d *Definition) arg(name string) *Arg {
	for i := range d.Args {
		if d.Args[i].Name == name {
			return &d.Args[i]
		}
	}
	return nil
}

// Marker is one marker with its arguments in the types that its definition names.
type Marker struct {
	Name  string // as in the definition
	Pos   token.Position
	Value any
	Raw   string // what stands after "=", as written
	args  map[string]any
}

// Text is the value of a String, Raw or Any marker, empty if it has none.
func (m *Marker) Text() string { s, _ := m.Value.(string); return s }

// Has says that a named argument was given.
func (m *Marker) Has(arg string) bool { _, ok := m.args[arg]; return ok }

// String is a named argument, empty if not given.
func (m *Marker) String(arg string) string { s, _ := m.args[arg].(string); return s }

// Strings is a named argument, nil if not given.
func (m *Marker) Strings(arg string) []string { s, _ := m.args[arg].([]string); return s }

// Int is a named argument, 0 if not given.
func (m *Marker) Int(arg string) int64 { i, _ := m.args[arg].(int64); return i }

// Bool is a named argument, nil if not given.
func (m *Marker) Bool(arg string) *bool {
	if b, ok := m.args[arg].(bool); ok {
		return &b
	}
	return nil
}

// Markers are those of one package, type or field, in source order.
type Markers []*Marker

// Get is the first marker of that name, or nil.
func (ms Markers) Get(name string) *Marker {
	for _, m := range ms {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// Has says that a marker of one of the names is there.
func (ms Markers) Has(names ...string) bool {
	for _, name := range names {
		if ms.Get(name) != nil {
			return true
		}
	}
	return false
}
