package client

import (
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"
)

// parseObject reads a JSON object into maps, slices, strings, booleans, int64 and float64, as the decoder of apimachinery does, several
// times as fast, because it knows what it makes. What it does not like goes to that decoder, whose errors people know.
func parseObject(data []byte, share *sharing) (map[string]any, error) {
	p := parser{data: data, share: share}
	value, err := p.value(0)
	if err == nil {
		p.space()
		if object, ok := value.(map[string]any); ok && p.at == len(data) {
			return object, nil
		}
	}
	var object map[string]any
	err = unmarshal(data, &object)
	return object, err
}

var errUnusual = errors.New("unusual JSON")

// maxDepth is that of encoding/json.
const maxDepth = 10000

type parser struct {
	data  []byte
	at    int
	share *sharing
}

func (p *parser) space() {
	for p.at < len(p.data) {
		switch p.data[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// peek is the next byte that is no white space; 0 at the end.
func (p *parser) peek() byte {
	p.space()
	if p.at == len(p.data) {
		return 0
	}
	return p.data[p.at]
}

// take expects a byte.
func (p *parser) take(b byte) error {
	if p.peek() != b {
		return errUnusual
	}
	p.at++
	return nil
}

func (p *parser) word(w string, value any) (any, error) {
	if len(p.data)-p.at < len(w) || string(p.data[p.at:p.at+len(w)]) != w {
		return nil, errUnusual
	}
	p.at += len(w)
	return value, nil
}

func (p *parser) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, errUnusual
	}
	switch b := p.peek(); b {
	case '{':
		return p.object(depth + 1)
	case '[':
		return p.array(depth + 1)
	case '"':
		return p.text()
	case 't':
		return p.word("true", true)
	case 'f':
		return p.word("false", false)
	case 'n':
		return p.word("null", nil)
	default:
		return p.number()
	}
}

func (p *parser) object(depth int) (any, error) {
	p.at++
	object := map[string]any{}
	if p.peek() == '}' {
		p.at++
		return object, nil
	}
	for {
		if p.peek() != '"' {
			return nil, errUnusual
		}
		key, err := p.text()
		if err != nil {
			return nil, err
		}
		if err := p.take(':'); err != nil {
			return nil, err
		}
		value, err := p.field(key, depth)
		if err != nil {
			return nil, err
		}
		object[key] = value
		switch p.peek() {
		case ',':
			p.at++
		case '}':
			p.at++
			return object, nil
		default:
			return nil, errUnusual
		}
	}
}

// field is the value of a key; that of fieldsV1 is an earlier one if that was equal, and may be shared.
func (p *parser) field(key string, depth int) (any, error) {
	if p.share == nil || p.share.trees == nil || key != "fieldsV1" {
		return p.value(depth)
	}
	p.space()
	begin := p.at
	if err := p.skip(); err != nil {
		return nil, err
	}
	if tree, ok := p.share.trees[string(p.data[begin:p.at])]; ok {
		return tree, nil
	}
	end := p.at
	p.at = begin
	tree, err := p.value(depth)
	if err == nil && len(p.share.trees) < maxTrees {
		p.share.trees[string(p.data[begin:end])] = tree
	}
	return tree, err
}

// skip goes behind a value, of which it checks no more than where it ends.
func (p *parser) skip() error {
	p.space()
	for open := 0; p.at < len(p.data); {
		switch p.data[p.at] {
		case '"':
			if _, _, err := p.quoted(); err != nil {
				return err
			}
		case '{', '[':
			open++
			p.at++
		case '}', ']':
			if open == 0 {
				return nil
			}
			open--
			p.at++
		case ',':
			if open == 0 {
				return nil
			}
			p.at++
			continue
		default:
			p.at++
			continue
		}
		if open == 0 {
			return nil
		}
	}
	return errUnusual
}

func (p *parser) array(depth int) (any, error) {
	p.at++
	if p.peek() == ']' {
		p.at++
		return []any{}, nil
	}
	var few [8]any // most are no longer, and are then made as long as they are
	elements := few[:0]
	for {
		element, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		elements = append(elements, element)
		switch p.peek() {
		case ',':
			p.at++
		case ']':
			p.at++
			return append(make([]any, 0, len(elements)), elements...), nil
		default:
			return nil, errUnusual
		}
	}
}

// quoted is what stands between quotes, and whether that has escapes.
func (p *parser) quoted() (inner []byte, escaped bool, err error) {
	begin, ascii := p.at+1, true
	for n := begin; n < len(p.data); n++ {
		switch b := p.data[n]; {
		case b == '"':
			p.at = n + 1
			inner = p.data[begin:n]
			if !ascii && !utf8.Valid(inner) {
				return nil, false, errUnusual
			}
			return inner, escaped, nil
		case b == '\\':
			escaped = true
			n++
		case b < ' ':
			return nil, false, errUnusual
		case b >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false, errUnusual
}

func (p *parser) text() (string, error) {
	begin := p.at
	inner, escaped, err := p.quoted()
	if err != nil {
		return "", err
	}
	if !escaped {
		return p.share.text(inner), nil
	}
	var space [256]byte
	plain := space[:0]
	for n := 0; n < len(inner); n++ {
		b := inner[n]
		if b != '\\' {
			plain = append(plain, b)
			continue
		}
		n++
		switch inner[n] {
		case '"', '\\', '/':
			plain = append(plain, inner[n])
		case 'b':
			plain = append(plain, '\b')
		case 'f':
			plain = append(plain, '\f')
		case 'n':
			plain = append(plain, '\n')
		case 'r':
			plain = append(plain, '\r')
		case 't':
			plain = append(plain, '\t')
		case 'u': // surrogates and all
			var s string
			if err := json.Unmarshal(p.data[begin:p.at], &s); err != nil {
				return "", errUnusual
			}
			return s, nil
		default:
			return "", errUnusual
		}
	}
	return p.share.text(plain), nil
}

func (p *parser) number() (any, error) {
	begin := p.at
	digits := func() bool {
		from := p.at
		for p.at < len(p.data) && p.data[p.at] >= '0' && p.data[p.at] <= '9' {
			p.at++
		}
		return p.at > from
	}
	next := func(of string) bool {
		for n := range len(of) {
			if p.at < len(p.data) && p.data[p.at] == of[n] {
				p.at++
				return true
			}
		}
		return false
	}
	next("-")
	if !next("0") && !digits() {
		return nil, errUnusual
	}
	whole := true
	if next(".") {
		if whole = false; !digits() {
			return nil, errUnusual
		}
	}
	if next("eE") {
		next("+-")
		if whole = false; !digits() {
			return nil, errUnusual
		}
	}
	text := string(p.data[begin:p.at])
	if whole {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, errUnusual
	}
	return f, nil
}
