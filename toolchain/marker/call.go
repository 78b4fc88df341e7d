package marker

import (
	"fmt"
	"strings"
)

// call is a marker's text without its arguments in parentheses, and those.
type call struct {
	text  string // what is left: name=value
	args  string
	given bool // there were parentheses
}

// cutCall takes the arguments in parentheses out of a k8s: marker. Others have none: a parenthesis is part of their values.
func cutCall(text string) (call, error) {
	open := strings.IndexAny(text, "(= ")
	if !strings.HasPrefix(text, "k8s:") || open < 0 || text[open] != '(' {
		return call{text: text}, nil
	}
	s := &scanner{text: text, pos: open + 1}
	for s.pos < len(text) {
		switch c := text[s.pos]; c {
		case ')':
			return call{text: text[:open] + text[s.pos+1:], args: text[open+1 : s.pos], given: true}, nil
		case '"', '`':
			if !s.skipQuoted() {
				return call{}, fmt.Errorf("+%s: the string %s is not closed", text[:open], text[s.pos:])
			}
		default:
			s.pos++
		}
	}
	return call{}, fmt.Errorf("+%s: the parenthesis is not closed", text[:open])
}

// parens reads `value`, or `name: value, name: value`, as the definition has them.
func (d *Definition) parens(c call) (map[string]any, error) {
	args := map[string]any{}
	s := &scanner{text: c.args}
	for s.peek() != 0 {
		start := s.pos
		word, err := s.parenWord()
		if err != nil {
			return nil, err
		}
		name := ""
		if s.peek() == ':' {
			s.pos++
			name = word
			if word, err = s.parenWord(); err != nil {
				return nil, err
			}
		}
		if !d.AnyParens && d.paren(name) == nil {
			return nil, fmt.Errorf("has no argument %q in parentheses", strings.TrimSpace(c.args[start:s.pos]))
		}
		if _, twice := args[name]; twice {
			return nil, fmt.Errorf("has argument %s twice", name)
		}
		args[name] = word
		if c := s.peek(); c == ',' {
			s.pos++
		} else if c != 0 {
			return nil, fmt.Errorf("expected , or ) at %q", s.text[s.pos:])
		}
	}
	for _, a := range d.Parens {
		if _, given := args[a.Name]; given || a.Optional {
			continue
		}
		if a.Name == "" {
			return nil, fmt.Errorf("needs an argument in parentheses")
		}
		return nil, fmt.Errorf("needs the argument %s in parentheses", a.Name)
	}
	return args, nil
}

func (d *Definition) paren(name string) *Arg {
	for i := range d.Parens {
		if d.Parens[i].Name == name {
			return &d.Parens[i]
		}
	}
	return nil
}

// parenWord is a quoted string or what stands up to the next comma or colon.
func (s *scanner) parenWord() (string, error) {
	if c := s.peek(); c == '"' || c == '`' {
		return s.str(true)
	}
	start := s.pos
	for s.pos < len(s.text) && s.text[s.pos] != ',' && s.text[s.pos] != ':' {
		s.pos++
	}
	word := strings.TrimSpace(s.text[start:s.pos])
	if word == "" {
		return "", fmt.Errorf("has an empty argument in parentheses")
	}
	return word, nil
}
