package builtin

import (
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/json"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// The text of the schemas has a line per type: its name, a space, and an atom.
//
//	atom     = [scalar] [list] [map]
//	scalar   = "s" | "n" | "b" | "u"                     string, numeric, boolean, untyped
//	list     = "[" relation {"," key} " " ref "]"
//	map      = "{" [relation ","] {field ":" ref ["=" default] ";"} " " ref "}"
//	ref      = ["!" relation] ( "@" name " " | atom ) ["?"]      "?": null is a value
//	relation = "" | "a" | "x" | "p"                      none, atomic, associative, separable
//	default  = JSON in a Go string literal

var scalars = map[byte]smd.Scalar{'s': smd.String, 'n': smd.Numeric, 'b': smd.Boolean, 'u': smd.Untyped}

var relations = map[byte]smd.ElementRelationship{'a': smd.Atomic, 'x': smd.Associative, 'p': smd.Separable}

// splitSchemaText maps the names of types to their lines.
func splitSchemaText(text string) map[string]string {
	lines := make(map[string]string, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		if name, atom, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok && name != "#" {
			lines[name] = atom
		}
	}
	return lines
}

func parseAtom(text string) (smd.Atom, error) {
	r := &schemaReader{rest: text}
	a := r.atom()
	if r.err == nil && r.rest != "" {
		r.fail("the end")
	}
	return a, r.err
}

// schemaReader reads from the start of rest. After an error it reads nothing.
type schemaReader struct {
	rest string
	err  error
}

func (r *schemaReader) fail(want string) {
	if r.err == nil {
		r.err = fmt.Errorf("parse schema: want %s at %.20q", want, r.rest)
	}
	r.rest = ""
}

// next consumes a byte if it is the next one, and reports whether it was.
func (r *schemaReader) next(b byte) bool {
	if r.rest == "" || r.rest[0] != b {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

func (r *schemaReader) want(b byte) {
	if !r.next(b) {
		r.fail(strconv.Quote(string(b)))
	}
}

// until consumes everything up to and including a byte, and returns what precedes it.
func (r *schemaReader) until(b byte) string {
	before, after, ok := strings.Cut(r.rest, string(b))
	if !ok {
		r.fail(strconv.Quote(string(b)))
		return ""
	}
	r.rest = after
	return before
}

func (r *schemaReader) relation() smd.ElementRelationship {
	if r.rest == "" {
		return ""
	}
	relation, ok := relations[r.rest[0]]
	if ok {
		r.rest = r.rest[1:]
	}
	return relation
}

func (r *schemaReader) atom() (a smd.Atom) {
	if r.rest != "" {
		if scalar, ok := scalars[r.rest[0]]; ok {
			r.rest = r.rest[1:]
			a.Scalar = &scalar
		}
	}
	if r.next('[') {
		list := &smd.List{ElementRelationship: r.relation()}
		if keys := r.until(' '); keys != "" {
			list.Keys = strings.Split(strings.TrimPrefix(keys, ","), ",")
		}
		list.ElementType = r.ref()
		r.want(']')
		a.List = list
	}
	if r.next('{') {
		m := &smd.Map{}
		if len(r.rest) > 1 && r.rest[1] == ',' && r.rest[0] != ',' {
			m.ElementRelationship = r.relation()
			r.want(',')
		}
		for r.err == nil && !r.next(' ') {
			m.Fields = append(m.Fields, r.field())
		}
		m.ElementType = r.ref()
		r.want('}')
		a.Map = m
	}
	return a
}

func (r *schemaReader) field() smd.StructField {
	f := smd.StructField{Name: r.until(':'), Type: r.ref()}
	if strings.Contains(f.Name, ",") { // the field would be parsed as a relation
		r.fail("a name without comma")
	}
	if r.next('=') {
		quoted, err := strconv.QuotedPrefix(r.rest)
		if err != nil {
			r.fail("a default")
			return f
		}
		r.rest = r.rest[len(quoted):]
		value, _ := strconv.Unquote(quoted)
		if err := json.UnmarshalCaseSensitivePreserveInts([]byte(value), &f.Default); err != nil {
			r.fail("JSON as default")
		}
	}
	r.want(';')
	return f
}

func (r *schemaReader) ref() (t smd.TypeRef) {
	if r.next('!') {
		relation := r.relation()
		t.ElementRelationship = &relation
	}
	if r.next('@') {
		name := r.until(' ')
		t.NamedType = &name
	} else {
		t.Inlined = r.atom()
	}
	t.Nullable = r.next('?')
	return t
}
