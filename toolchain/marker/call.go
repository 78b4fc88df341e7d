package marker

import (
	"fmt"
	"strings"
)

// call is the text of a marker, split into its arguments in parentheses and the rest.
type call struct {
	text  string // name=value, without the parentheses
	args  string
	given bool // the marker has parentheses
}

// cutCall splits off the arguments in parentheses of a k8s: marker. In other markers a parenthesis
// is part of the value.
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

// parens parses the arguments in parentheses, `value` or `name: value, name: value`, against the
// definition. order has their names in source order.
func (d *Definition) parens(c call) (args map[string]any, order []string, err error) {
	args = map[string]any{}
	s := &scanner{text: c.args}
	for s.peek() != 0 {
		start := s.pos
		word, err := s.parenWord()
		if err != nil {
			return nil, nil, err
		}
		name := ""
		if s.peek() == ':' {
			s.pos++
			name = word
			if word, err = s.parenWord(); err != nil {
				return nil, nil, err
			}
		}
		if !d.AnyParens && d.paren(name) == nil {
			return nil, nil, fmt.Errorf("has no argument %q in parentheses", strings.TrimSpace(c.args[start:s.pos]))
		}
		if _, twice := args[name]; twice {
			return nil, nil, fmt.Errorf("has argument %s twice", name)
		}
		args[name] = word
		order = append(order, name)
		if c := s.peek(); c == ',' {
			s.pos++
		} else if c != 0 {
			return nil, nil, fmt.Errorf("expected , or ) at %q", s.text[s.pos:])
		}
	}
	for _, a := range d.Parens {
		if _, given := args[a.Name]; given || a.Optional {
			continue
		}
		if a.Name == "" {
			return nil, nil, fmt.Errorf("needs an argument in parentheses")
		}
		return nil, nil, fmt.Errorf("needs the argument %s in parentheses", a.Name)
	}
	return args, order, nil
}

func (d *Definition) paren(name string) *Arg {
	for i := range d.Parens {
		if d.Parens[i].Name == name {
			return &d.Parens[i]
		}
	}
	return nil
}

// parenWord reads a quoted string, or the text before the next comma or colon.
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
