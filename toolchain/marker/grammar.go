package marker

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// split splits a marker (without "+") into its name and the text after "=". assigned distinguishes
// "name=" from "name".
func split(text string) (name, rest string, assigned bool) {
	name, rest, assigned = strings.Cut(text, "=")
	return name, rest, assigned
}

// parse parses the text after "=" into a value or arguments. If the marker has named arguments,
// first is the name of the first one.
func (d *Definition) parse(first, rest string, assigned bool) (value any, args map[string]any, err error) {
	if strings.HasPrefix(d.Name, "k8s:") && d.Value != Raw {
		rest = withoutRemark(rest)
	}
	s := &scanner{text: rest}
	switch {
	case len(d.Args) > 0:
		args, err = s.args(d, first, assigned)
	case d.Value == None:
		if assigned {
			err = fmt.Errorf("takes no value")
		}
	case !assigned || strings.TrimSpace(rest) == "":
		if !d.Optional {
			err = fmt.Errorf("needs a value: %s", d.Value)
		}
	default:
		value, err = s.value(d.Value)
		if err == nil {
			err = s.end()
		}
	}
	return value, args, err
}

// withoutRemark returns text up to a # that is not in quotes, without spaces around it.
func withoutRemark(text string) string {
	s := &scanner{text: text}
	for s.pos < len(text) {
		switch text[s.pos] {
		case '#':
			return strings.TrimSpace(text[:s.pos])
		case '"', '`':
			if !s.skipQuoted() {
				return strings.TrimSpace(text)
			}
		default:
			s.pos++
		}
	}
	return strings.TrimSpace(text)
}

type scanner struct {
	text string
	pos  int
}

func (s *scanner) skipSpace() {
	for s.pos < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.pos]) >= 0 {
		s.pos++
	}
}

// peek returns the next byte that is not a space, or 0 at the end.
func (s *scanner) peek() byte {
	s.skipSpace()
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

func (s *scanner) end() error {
	if s.peek() == 0 {
		return nil
	}
	return fmt.Errorf("unexpected %q after the value; quote a value that contains , ; or }", s.text[s.pos:])
}

// args reads the value of the argument first, whose name was already read, and the named arguments
// after it. If an argument is repeated, it returns the error and all arguments, of which the last
// count, as in controller-gen.
func (s *scanner) args(d *Definition, first string, assigned bool) (map[string]any, error) {
	args := map[string]any{}
	name := first
	var repeated error
	for assigned {
		arg := d.arg(name)
		if arg == nil {
			return nil, fmt.Errorf("has no argument %q%s", name, suggestion(name, argNames(d)))
		}
		if _, twice := args[name]; twice {
			repeated = fmt.Errorf("has argument %s twice", name)
		}
		v, err := s.value(arg.Kind)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		args[name] = v
		if s.peek() == 0 {
			break
		}
		if s.peek() != ',' {
			return nil, fmt.Errorf("%s: %w", name, s.end())
		}
		s.pos++
		s.skipSpace()
		name, assigned = "", false
		if rest := s.text[s.pos:]; rest != "" {
			if name, _, assigned = strings.Cut(rest, "="); !assigned {
				return nil, fmt.Errorf("expected argument=value, got %q", rest)
			}
			s.pos += len(name) + 1
			name = strings.TrimSpace(name)
		}
	}
	for _, a := range d.Args {
		if _, given := args[a.Name]; !given && !a.Optional {
			return nil, fmt.Errorf("needs the argument %s (%s)", a.Name, a.Kind)
		}
	}
	return args, repeated
}

func argNames(d *Definition) []string {
	names := make([]string, len(d.Args))
	for i, a := range d.Args {
		names[i] = a.Name
	}
	return names
}

func (s *scanner) value(k Kind) (any, error) {
	switch k {
	case String:
		return s.str(false)
	case Int:
		text := s.token()
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("expected %s, got %q", k, text)
		}
		return n, nil
	case Number:
		text := s.token()
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) { // which JSON cannot express
			return nil, fmt.Errorf("expected %s, got %q", k, text)
		}
		return n, nil
	case Bool:
		switch text := s.token(); text {
		case "true":
			return true, nil
		case "false":
			return false, nil
		default:
			return nil, fmt.Errorf("expected %s, got %q", k, text)
		}
	case Strings:
		items, err := s.list(String)
		if err != nil {
			return nil, err
		}
		texts := make([]string, len(items))
		for i, it := range items {
			texts[i] = it.(string)
		}
		return texts, nil
	case List:
		return s.list(Any)
	case Any:
		return s.any(true, 0)
	case JSON:
		return s.json()
	default: // Raw
		rest := s.text[s.pos:]
		s.pos = len(s.text)
		return rest, nil
	}
}

// token reads an unquoted word.
func (s *scanner) token() string {
	s.skipSpace()
	start := s.pos
	for s.pos < len(s.text) && !delimits(s.text[s.pos]) {
		s.pos++
	}
	return strings.TrimRight(s.text[start:s.pos], " \t")
}

func delimits(c byte) bool { return c == ',' || c == ';' || c == '}' }

// str reads a quoted string or a bare word, which may contain quoted parts. The keys of a map also
// end at a colon.
func (s *scanner) str(key bool) (string, error) {
	if c := s.peek(); c == '"' || c == '`' {
		start := s.pos
		if !s.skipQuoted() {
			return "", fmt.Errorf("the string %s is not closed", s.text[start:])
		}
		v, err := strconv.Unquote(s.text[start:s.pos])
		if err != nil {
			return "", fmt.Errorf("the string %s has an invalid escape; use backticks, which need no escapes",
				s.text[start:s.pos])
		}
		return v, nil
	}
	start := s.pos
	for s.pos < len(s.text) && !delimits(s.text[s.pos]) && (!key || s.text[s.pos] != ':') {
		if c := s.text[s.pos]; (c != '"' && c != '`') || !s.skipQuoted() {
			s.pos++
		}
	}
	return strings.TrimRight(s.text[start:s.pos], " \t"), nil
}

// skipQuoted advances past the quoted string at pos. If the string is not closed, it returns false
// and does not advance.
func (s *scanner) skipQuoted() bool {
	quote := s.text[s.pos]
	for i := s.pos + 1; i < len(s.text); i++ {
		switch {
		case s.text[i] == '\\' && quote == '"':
			i++
		case s.text[i] == quote:
			s.pos = i + 1
			return true
		}
	}
	return false
}

// list reads {a, b} or a;b.
func (s *scanner) list(elem Kind) ([]any, error) {
	items := []any{}
	one := func() error {
		v, err := s.elem(elem)
		items = append(items, v)
		return err
	}
	if s.peek() == '{' {
		s.pos++
		for s.peek() != '}' {
			if err := one(); err != nil {
				return nil, err
			}
			if c := s.peek(); c == ',' {
				s.pos++
			} else if c != '}' {
				return nil, fmt.Errorf("the list is not closed: expected , or }")
			}
		}
		s.pos++
		return items, nil
	}
	for c := s.peek(); c != 0 && c != ',' && c != '}'; c = s.peek() {
		if err := one(); err != nil {
			return nil, err
		}
		if s.peek() != ';' {
			break
		}
		s.pos++
	}
	return items, nil
}

// elem reads one item of a list. An item cannot be an a;b list itself.
func (s *scanner) elem(k Kind) (any, error) {
	if k == Any {
		return s.any(false, 1)
	}
	return s.value(k)
}

// maxDepth is the maximum nesting of lists and maps.
const maxDepth = 64

// any reads a value of the kind that its text suggests. All items of a list have the kind of the
// first.
func (s *scanner) any(lists bool, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	if s.peek() == '{' {
		return s.braces(depth)
	}
	v, kind, err := s.scalar()
	if err != nil || !lists || s.peek() != ';' {
		return v, err
	}
	items := []any{v}
	for s.peek() == ';' {
		s.pos++
		if c := s.peek(); c == 0 || c == ',' || c == '}' {
			break
		}
		next, err := s.value(kind)
		if err != nil {
			return nil, err
		}
		items = append(items, next)
	}
	return items, nil
}

func (s *scanner) scalar() (any, Kind, error) {
	if c := s.peek(); c == '"' || c == '`' {
		v, err := s.str(false)
		return v, String, err
	}
	start := s.pos
	word := s.token()
	switch {
	case word == "true" || word == "false":
		return word == "true", Bool, nil
	case decimal(word, false):
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			return n, Int, nil
		}
	case decimal(word, true):
		if n, err := strconv.ParseFloat(word, 64); err == nil {
			return n, Number, nil
		}
	}
	s.pos = start
	v, err := s.str(false)
	return v, String, err
}

// decimal reports whether a word is a decimal number. 1e3 and 0.5 are decimal numbers only if
// fraction is set. 007 is not one, because Go reads it as octal.
func decimal(word string, fraction bool) bool {
	digits := strings.TrimPrefix(word, "-")
	if digits == "" || digits[0] == '+' || digits[0] == '-' {
		return false
	}
	if len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9' {
		return false
	}
	for _, c := range digits {
		if c >= '0' && c <= '9' || fraction && strings.ContainsRune(".eE+-", c) {
			continue
		}
		return false
	}
	return true
}

// braces reads a map or a list. {} is an empty map.
func (s *scanner) braces(depth int) (any, error) {
	open := s.pos
	s.pos++
	if s.peek() == '}' {
		s.pos++
		return map[string]any{}, nil
	}
	if c := s.peek(); c != '{' {
		if _, err := s.str(true); err == nil && s.peek() == ':' {
			s.pos = open + 1
			return s.mapping(depth)
		}
	}
	s.pos = open + 1
	items := []any{}
	kind := Any
	for {
		var v any
		var err error
		switch {
		case kind != Any:
			v, err = s.value(kind)
		case s.peek() == '{':
			v, err = s.any(false, depth+1)
		default:
			v, kind, err = s.scalar()
		}
		if err != nil {
			return nil, err
		}
		items = append(items, v)
		if s.peek() == ',' {
			s.pos++
		}
		switch s.peek() {
		case '}':
			s.pos++
			return items, nil
		case 0:
			return nil, fmt.Errorf("the list %s is not closed", s.text[open:])
		case ';':
			return nil, fmt.Errorf("expected , or } at %q", s.text[s.pos:])
		}
		if prev := strings.TrimRight(s.text[:s.pos], " \t"); prev[len(prev)-1] != ',' {
			return nil, fmt.Errorf("expected , or } at %q", s.text[s.pos:])
		}
	}
}

func (s *scanner) mapping(depth int) (any, error) {
	m := map[string]any{}
	for s.peek() != '}' {
		key, err := s.str(true)
		if err != nil {
			return nil, err
		}
		if s.peek() != ':' {
			return nil, fmt.Errorf("expected : after the key %q", key)
		}
		s.pos++
		if m[key], err = s.any(true, depth+1); err != nil {
			return nil, err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
		default:
			return nil, fmt.Errorf("the map is not closed: expected , or }")
		}
	}
	s.pos++
	return m, nil
}

// json reads a JSON value up to the end of the text. It returns no value for `ref(…)`, which names
// a Go constant.
func (s *scanner) json() (any, error) {
	rest := strings.TrimSpace(s.text[s.pos:])
	s.pos = len(s.text)
	if strings.HasPrefix(rest, "ref(") {
		return nil, nil
	}
	if !utf8.ValidString(rest) {
		return nil, fmt.Errorf("expected JSON, got text that is not UTF-8")
	}
	var v any
	dec := json.NewDecoder(strings.NewReader(rest))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("expected JSON (strings in quotes), got %s", rest)
	}
	if dec.More() {
		return nil, fmt.Errorf("expected one JSON value, got %s", rest)
	}
	return v, nil
}
