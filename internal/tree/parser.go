package tree

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// maxDepth is the maximum depth that encoding/json accepts.
const maxDepth = 10000

// A Parser scans JSON, for callers that need only a part of it.
type Parser struct {
	Data  []byte
	At    int // position in Data
	Share Sharing
}

func (p *Parser) space() {
	for p.At < len(p.Data) {
		switch p.Data[p.At] {
		case ' ', '\t', '\n', '\r':
			p.At++
		default:
			return
		}
	}
}

// Peek skips white space and returns the next byte without consuming it; 0 at the end.
func (p *Parser) Peek() byte {
	p.space()
	if p.At == len(p.Data) {
		return 0
	}
	return p.Data[p.At]
}

// Take consumes b, which must be the next byte after white space.
func (p *Parser) Take(b byte) error {
	if p.Peek() != b {
		return ErrUnusual
	}
	p.At++
	return nil
}

// Value parses a value.
func (p *Parser) Value() (any, error) { return p.value(0) }

func (p *Parser) word(w string, value any) (any, error) {
	if len(p.Data)-p.At < len(w) || string(p.Data[p.At:p.At+len(w)]) != w {
		return nil, ErrUnusual
	}
	p.At += len(w)
	return value, nil
}

func (p *Parser) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, ErrUnusual
	}
	switch p.Peek() {
	case '{':
		object, err := p.object(depth + 1)
		if err != nil {
			return nil, err
		}
		return object, nil
	case '[':
		return p.array(depth + 1)
	case '"':
		return p.Text()
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

func (p *Parser) object(depth int) (map[string]any, error) {
	p.At++
	object, members := map[string]any{}, 0
	if p.Peek() == '}' {
		p.At++
		return object, nil
	}
	for {
		key, err := p.Text()
		if err != nil {
			return nil, err
		}
		if err := p.Take(':'); err != nil {
			return nil, err
		}
		value, err := p.field(key, depth)
		if err != nil {
			return nil, err
		}
		object[key] = value
		members++
		switch p.Peek() {
		case ',':
			p.At++
		case '}':
			p.At++
			if members != len(object) { // a duplicate name
				return nil, ErrUnusual
			}
			return object, nil
		default:
			return nil, ErrUnusual
		}
	}
}

// field parses the value of a key. For fieldsV1 it returns an earlier tree with the same encoding,
// if there is one.
func (p *Parser) field(key string, depth int) (any, error) {
	if p.Share == nil || key != "fieldsV1" || p.Peek() != '{' {
		return p.value(depth)
	}
	begin := p.At
	if err := p.Skip(); err != nil {
		return nil, err
	}
	raw := p.Data[begin:p.At]
	if tree, ok := p.Share.Fields(raw); ok {
		return tree, nil
	}
	p.At = begin
	tree, err := p.object(depth + 1)
	if err != nil {
		return nil, err
	}
	p.Share.Keep(raw, tree)
	return tree, nil
}

// Skip skips a value. It finds the end of the value, but does not validate it.
func (p *Parser) Skip() error {
	p.space()
	for open := 0; p.At < len(p.Data); {
		switch p.Data[p.At] {
		case '"':
			if _, _, err := p.Quoted(); err != nil {
				return err
			}
		case '{', '[':
			open++
			p.At++
		case '}', ']':
			if open == 0 {
				return nil
			}
			open--
			p.At++
		case ',':
			if open == 0 {
				return nil
			}
			p.At++
			continue
		default:
			p.At++
			continue
		}
		if open == 0 {
			return nil
		}
	}
	return ErrUnusual
}

func (p *Parser) array(depth int) (any, error) {
	p.At++
	if p.Peek() == ']' {
		p.At++
		return []any{}, nil
	}
	var few [8]any // most arrays are not longer, and their slice is allocated at its final length
	elements := few[:0]
	for {
		element, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		elements = append(elements, element)
		switch p.Peek() {
		case ',':
			p.At++
		case ']':
			p.At++
			return append(make([]any, 0, len(elements)), elements...), nil
		default:
			return nil, ErrUnusual
		}
	}
}

// Quoted consumes a string. It returns the text between the quotes, undecoded, and whether it has
// escapes.
func (p *Parser) Quoted() (inner []byte, escaped bool, err error) {
	begin, ascii := p.At+1, true
	for n := plainUntil(p.Data, begin); n < len(p.Data); n = plainUntil(p.Data, n) {
		switch b := p.Data[n]; {
		case b == '"':
			p.At = n + 1
			inner = p.Data[begin:n]
			if !ascii && !utf8.Valid(inner) {
				return nil, false, ErrUnusual
			}
			return inner, escaped, nil
		case b == '\\':
			escaped = true
			n += 2
		case b < ' ':
			return nil, false, ErrUnusual
		default:
			ascii = false
			n++
		}
	}
	return nil, false, ErrUnusual
}

// plainUntil returns the position, at or after n, of the first byte of a string that is not plain
// ASCII: the closing quote, an escape, a control character or a part of another character. It
// checks eight bytes at a time.
func plainUntil(data []byte, n int) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for ; n+8 <= len(data); n += 8 {
		x := binary.LittleEndian.Uint64(data[n:])
		quote, escape := x^('"'*each), x^('\\'*each)
		// The high bit of a byte is set if the byte is zero, or below a space. Carries can set it
		// wrongly in higher bytes, but the lowest one, which counts, is always right.
		found := ((quote-each)&^quote | (escape-each)&^escape | (x-' '*each)&^x | x) & high
		if found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for ; n < len(data); n++ {
		if b := data[n]; b == '"' || b == '\\' || b < ' ' || b >= utf8.RuneSelf {
			break
		}
	}
	return n
}

// Each calls yield with every key of the next object, undecoded; yield must consume the value.
func (p *Parser) Each(yield func(key []byte) error) error {
	return p.each(func(key []byte, _ bool) error { return yield(key) })
}

// EachPlain is Each for objects whose keys have no escapes.
func (p *Parser) EachPlain(yield func(key []byte) error) error {
	return p.each(func(key []byte, escaped bool) error {
		if escaped {
			return ErrUnusual
		}
		return yield(key)
	})
}

func (p *Parser) each(yield func(key []byte, escaped bool) error) error {
	if err := p.Take('{'); err != nil {
		return err
	}
	if p.Peek() == '}' {
		p.At++
		return nil
	}
	for {
		if p.Peek() != '"' {
			return ErrUnusual
		}
		key, escaped, err := p.Quoted()
		if err != nil {
			return err
		}
		if err := p.Take(':'); err != nil {
			return err
		}
		if err := yield(key, escaped); err != nil {
			return err
		}
		switch p.Peek() {
		case ',':
			p.At++
		case '}':
			p.At++
			return nil
		default:
			return ErrUnusual
		}
	}
}

// Elements calls yield with every encoded value of the next array. It does not validate the values.
func (p *Parser) Elements(yield func(raw []byte)) error {
	if err := p.Take('['); err != nil {
		return err
	}
	if p.Peek() == ']' {
		p.At++
		return nil
	}
	for {
		p.space()
		begin := p.At
		if err := p.Skip(); err != nil {
			return err
		}
		if p.At == begin {
			return ErrUnusual
		}
		yield(p.Data[begin:p.At])
		switch p.Peek() {
		case ',':
			p.At++
		case ']':
			p.At++
			return nil
		default:
			return ErrUnusual
		}
	}
}

// Find consumes an object and returns the encoded value of a key.
func (p *Parser) Find(name string) (found []byte, err error) {
	err = p.Each(func(key []byte) error {
		p.space()
		begin := p.At
		if err := p.Skip(); err != nil {
			return err
		}
		if string(key) == name {
			found = p.Data[begin:p.At]
		}
		return nil
	})
	if err == nil && found == nil {
		err = errors.New("no " + name)
	}
	return found, err
}

// errFound ends the search of Member.
var errFound = errors.New("found")

// Member moves to the value of a key of the next object, and does not read the rest of the object.
// It returns false if the object has no such key; keys with escapes are never equal to name.
func (p *Parser) Member(name string) (found bool, err error) {
	err = p.Each(func(key []byte) error {
		if string(key) == name {
			return errFound
		}
		return p.Skip()
	})
	if err == errFound {
		p.space()
		return true, nil
	}
	return false, err
}

// Text parses a string.
func (p *Parser) Text() (string, error) {
	if p.Peek() != '"' {
		return "", ErrUnusual
	}
	begin := p.At
	inner, escaped, err := p.Quoted()
	if err != nil {
		return "", err
	}
	if !escaped {
		return p.text(inner), nil
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
		case 'u': // including surrogates
			var s string
			if err := json.Unmarshal(p.Data[begin:p.At], &s); err != nil {
				return "", ErrUnusual
			}
			return s, nil
		default:
			return "", ErrUnusual
		}
	}
	return p.text(plain), nil
}

func (p *Parser) text(b []byte) string {
	if p.Share == nil {
		return string(b)
	}
	return p.Share.Text(b)
}

func (p *Parser) digits() bool {
	from := p.At
	for p.At < len(p.Data) && p.Data[p.At] >= '0' && p.Data[p.At] <= '9' {
		p.At++
	}
	return p.At > from
}

// next consumes one of some bytes, if it is next.
func (p *Parser) next(bytes string) bool {
	for n := range len(bytes) {
		if p.At < len(p.Data) && p.Data[p.At] == bytes[n] {
			p.At++
			return true
		}
	}
	return false
}

func (p *Parser) number() (any, error) {
	begin := p.At
	p.next("-")
	if !p.next("0") && !p.digits() {
		return nil, ErrUnusual
	}
	whole := true
	if p.next(".") {
		if whole = false; !p.digits() {
			return nil, ErrUnusual
		}
	}
	if p.next("eE") {
		p.next("+-")
		if whole = false; !p.digits() {
			return nil, ErrUnusual
		}
	}
	text := string(p.Data[begin:p.At])
	if whole {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, ErrUnusual
	}
	return f, nil
}
