package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
)

// span is the position of the resourceVersion's value in an object's JSON, or the position at which
// to insert it.
type span struct {
	start, end int
	fill       fill
}

// fill describes the text that splice must add around the value.
type fill uint8

const (
	value      fill = iota // the span is a value
	onlyMember             // the span is in an empty metadata object
	newMember              // the span is before the first member of metadata
)

// splice returns a copy of data with the revision as resourceVersion, and the span of that value.
func (sp span) splice(data []byte, revision uint64) ([]byte, span) {
	const name = `"resourceVersion":`
	out := make([]byte, 0, len(data)-(sp.end-sp.start)+len(name)+len(`"18446744073709551615",`))
	out = append(out, data[:sp.start]...)
	if sp.fill != value {
		out = append(out, name...)
	}
	start := len(out)
	out = append(out, '"')
	out = strconv.AppendUint(out, revision, 10)
	out = append(out, '"')
	end := len(out)
	if sp.fill == newMember {
		out = append(out, ',')
	}
	return append(out, data[sp.end:]...), span{start: start, end: end}
}

// scanHead reads the metadata of an object's JSON and finds its resourceVersion. It assumes that
// the JSON is well-formed: it skips values that it does not need, and stops after the metadata. It
// compares names exactly, as Kubernetes does.
func scanHead(data []byte) (Head, span, error) {
	s := scanner{data: data}
	head, at := Head{}, span{}
	if s.open('{') && s.find("metadata") {
		at = s.metadata(&head)
	} else if s.err == nil {
		s.err = fmt.Errorf("%w: missing metadata", ErrMalformed)
	}
	if s.err != nil {
		return Head{}, span{}, s.err
	}
	return head, at, nil
}

// Metadata returns the JSON of the object's metadata. It is a part of Data: never change it.
// Every stored object has metadata, see scanHead.
func (o *Object) Metadata() []byte { return o.Member("metadata") }

// Member returns the JSON of a member of the object, or nil if the object does not have it. It is a
// part of Data: never change it.
func (o *Object) Member(name string) []byte {
	s := scanner{data: o.Data}
	if !s.open('{') || !s.find(name) {
		return nil
	}
	start := s.i
	s.skip()
	return o.Data[start:s.i]
}

// WithoutManagedFields returns the JSON of the object without metadata.managedFields, which are
// a large part of most objects. Like Data, it must not be changed.
func (o *Object) WithoutManagedFields() []byte {
	s := scanner{data: o.Data}
	if !s.open('{') || !s.find("metadata") || !s.open('{') {
		return o.Data
	}
	end := s.i // of the previous member or the opening brace
	for first := true; s.member(first); first = false {
		found := string(s.name) == "managedFields"
		s.skip()
		switch {
		case s.err != nil:
			return o.Data
		case !found:
			end = s.i
			continue
		}
		if first && s.peek() == ',' {
			s.i++
		}
		return slices.Concat(o.Data[:end], o.Data[s.i:])
	}
	return o.Data
}

func (s *scanner) metadata(head *Head) (at span) {
	if !s.open('{') {
		return
	}
	at = span{s.i, s.i, onlyMember}
	for first := true; s.member(first); first = false {
		if at.fill == onlyMember {
			at.fill = newMember
		}
		switch string(s.name) {
		case "resourceVersion":
			if at.fill == value {
				s.fail("duplicate resourceVersion")
				return
			}
			at = span{start: s.i, fill: value}
			s.string()
			at.end = s.i
		case "uid":
			head.UID = types.UID(s.string())
		case "generation":
			head.Generation = s.integer()
		case "creationTimestamp":
			head.CreationTimestamp = s.time()
		case "deletionTimestamp":
			head.DeletionTimestamp = s.time()
		case "labels":
			head.Labels = s.labels()
		case "finalizers":
			head.Finalizers = s.strings()
		case "ownerReferences":
			head.Owners = s.owners()
		default:
			s.skip()
		}
	}
	return at
}

func (s *scanner) labels() map[string]string {
	if s.null() || !s.open('{') {
		return nil
	}
	var labels map[string]string
	for first := true; s.member(first); first = false {
		if labels == nil {
			labels = map[string]string{}
		}
		name := string(s.name) // copied: s.string may overwrite it
		labels[name] = s.string()
	}
	return labels
}

func (s *scanner) strings() (list []string) {
	if s.null() || !s.open('[') {
		return nil
	}
	for first := true; s.element(first); first = false {
		list = append(list, s.string())
	}
	return list
}

func (s *scanner) owners() (list []Owner) {
	if s.null() || !s.open('[') {
		return nil
	}
	for first := true; s.element(first); first = false {
		list = append(list, Owner{})
		s.owner(&list[len(list)-1])
	}
	return list
}

func (s *scanner) owner(o *Owner) {
	if s.null() || !s.open('{') {
		return
	}
	for first := true; s.member(first); first = false {
		switch string(s.name) {
		case "apiVersion":
			o.APIVersion = s.string()
		case "kind":
			o.Kind = s.string()
		case "name":
			o.Name = s.string()
		case "uid":
			o.UID = types.UID(s.string())
		case "controller":
			o.Controller = s.bool()
		case "blockOwnerDeletion":
			o.BlockOwnerDeletion = s.bool()
		default:
			s.skip()
		}
	}
}

// scanner reads JSON sequentially. After an error, everything reads as empty.
//
// It is separate from the parser of internal/tree, which rejects unusual input so that its callers
// use encoding/json instead. The store has no such alternative, because it needs the position of
// the resourceVersion: it must read everything that encoding/json accepts, such as invalid UTF-8.
type scanner struct {
	data []byte
	i    int    // the next byte to read
	name []byte // name of the member that method member found
	err  error
}

func (s *scanner) fail(what string) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: %s at byte %d", ErrMalformed, what, s.i)
	}
	s.i = len(s.data)
}

// peek skips white space and returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	for ; s.i < len(s.data); s.i++ {
		switch c := s.data[s.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) open(c byte) bool {
	if s.peek() != c {
		s.fail("expected " + string(c))
		return false
	}
	s.i++
	return true
}

// more moves to the next member or element, or past the closing byte.
func (s *scanner) more(first bool, closing byte) bool {
	switch c := s.peek(); {
	case c == closing:
		s.i++
		return false
	case first && c != 0:
		return true
	case c == ',':
		s.i++
		s.peek()
		return true
	}
	s.fail("expected , or " + string(closing))
	return false
}

func (s *scanner) element(first bool) bool { return s.more(first, ']') }

// find moves to the value of the first member with a name, after the opening brace of an object.
func (s *scanner) find(name string) bool {
	for first := true; s.member(first); first = false {
		if string(s.name) == name {
			return true
		}
		s.skip()
	}
	return false
}

// member moves to the value of the next member of an object.
func (s *scanner) member(first bool) bool {
	if !s.more(first, '}') {
		return false
	}
	raw, plain := s.token()
	if s.peek() != ':' {
		s.fail("expected :")
		return false
	}
	s.i++
	s.peek()
	if s.name = raw; !plain {
		s.name = []byte(s.unquote(raw))
	}
	return s.err == nil
}

// token reads a string and returns the bytes between the quotes; plain reports that they need no
// unquoting.
func (s *scanner) token() (raw []byte, plain bool) {
	if s.peek() != '"' {
		s.fail("expected a string")
		return nil, true
	}
	s.i++
	start := s.i
	plain = true
	for s.i < len(s.data) {
		switch c := s.data[s.i]; {
		case c == '"':
			s.i++
			return s.data[start : s.i-1], plain
		case c == '\\':
			plain = false
			s.i++
		case c >= utf8.RuneSelf:
			plain = false
		}
		s.i++
	}
	s.fail("unterminated string")
	return nil, true
}

// unquote decodes the rare strings with escapes or non-ASCII characters with encoding/json, which
// implements all rules.
func (s *scanner) unquote(raw []byte) (v string) {
	quoted := make([]byte, 0, len(raw)+2)
	quoted = append(append(append(quoted, '"'), raw...), '"')
	if err := json.Unmarshal(quoted, &v); err != nil {
		s.fail("invalid string")
	}
	return v
}

func (s *scanner) string() string {
	if s.null() {
		return ""
	}
	raw, plain := s.token()
	if !plain {
		return s.unquote(raw)
	}
	return string(raw)
}

// literal reads a number, true, false or null.
func (s *scanner) literal() []byte {
	s.peek()
	start := s.i
	for s.i < len(s.data) {
		switch s.data[s.i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return s.data[start:s.i]
		}
		s.i++
	}
	return s.data[start:]
}

// null reads a null, if one is next. A null stands for the zero value of any type.
func (s *scanner) null() bool {
	if s.peek() != 'n' || !bytes.HasPrefix(s.data[s.i:], []byte("null")) {
		return false
	}
	s.i += len("null")
	return true
}

func (s *scanner) integer() int64 {
	if s.null() {
		return 0
	}
	n, err := strconv.ParseInt(string(s.literal()), 10, 64)
	if err != nil {
		s.fail("expected an integer")
	}
	return n
}

func (s *scanner) bool() bool {
	if s.null() {
		return false
	}
	switch string(s.literal()) {
	case "true":
		return true
	case "false":
	default:
		s.fail("expected a boolean")
	}
	return false
}

func (s *scanner) time() time.Time {
	if s.null() {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, s.string())
	if err != nil {
		s.fail("expected a time in RFC 3339 format")
	}
	return t
}

// skip skips a value of any kind.
func (s *scanner) skip() {
	switch s.peek() {
	case '"':
		s.token()
		return
	case '{', '[':
	case 0:
		s.fail("expected a value")
		return
	default:
		s.literal()
		return
	}
	for depth := 0; s.i < len(s.data); {
		switch s.data[s.i] {
		case '"':
			s.token()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.i++
				return
			}
		}
		s.i++
	}
	s.fail("unterminated value")
}
