package fieldset

import (
	"strconv"
	"sync"

	"kelson.dev/apiserver/fastpath/shape"
)

// Writer encodes a field set as the library does: members sorted, and "." first in a value that is
// owned itself and has owned parts.
type Writer struct {
	Raw   []byte       // the encoding so far
	Names []string     // members of the enclosing maps
	Keys  []ElementKey // elements of the enclosing lists

	created, nulls bool // Options of Object
}

var writers = sync.Pool{New: func() any { return &Writer{Raw: make([]byte, 0, 1<<10)} }}

// A writer with more bytes, names or keys than this is not reused.
const (
	maxBytes = 64 << 10
	maxNames = 1 << 10
	maxKeys  = 1 << 7
)

// NewWriter returns an empty Writer from a pool.
func NewWriter() *Writer { return writers.Get().(*Writer) }

// Free puts the Writer back into the pool. The caller must not use it or its Raw afterwards.
func (w *Writer) Free() {
	if cap(w.Raw) > maxBytes || cap(w.Names) > maxNames || cap(w.Keys) > maxKeys {
		return
	}
	clear(w.Names[:cap(w.Names)])
	clear(w.Keys[:cap(w.Keys)])
	w.Raw, w.Names, w.Keys = w.Raw[:0], w.Names[:0], w.Keys[:0]
	writers.Put(w)
}

// Plain reports whether a string needs no escapes in JSON, nor in a JSON string within JSON.
func Plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

func (w *Writer) comma() {
	if w.Raw[len(w.Raw)-1] != '{' {
		w.Raw = append(w.Raw, ',')
	}
}

// Name writes the name of a member of a map.
func (w *Writer) Name(name string) bool {
	if !Plain(name) {
		return false
	}
	w.comma()
	w.Raw = append(w.Raw, `"f:`...)
	w.Raw = append(w.Raw, name...)
	w.Raw = append(w.Raw, `":`...)
	return true
}

// Element writes the key of an element of a list.
func (w *Writer) Element(m *ElementKey, keys []shape.Key) bool {
	w.comma()
	if len(keys) == 0 {
		w.Raw = append(w.Raw, `"v:`...)
		if !w.scalar(m.Key[0]) {
			return false
		}
		w.Raw = append(w.Raw, `":`...)
		return true
	}
	w.Raw = append(w.Raw, `"k:{`...)
	for i, k := range keys {
		if i > 0 {
			w.Raw = append(w.Raw, ',')
		}
		w.Raw = append(w.Raw, `\"`...)
		w.Raw = append(w.Raw, k.Name...)
		w.Raw = append(w.Raw, `\":`...)
		if !Plain(k.Name) || !w.scalar(m.Key[i]) {
			return false
		}
	}
	w.Raw = append(w.Raw, `}":`...)
	return true
}

func (w *Writer) scalar(s Scalar) bool {
	switch s.Kind {
	case shape.Number:
		w.Raw = strconv.AppendInt(w.Raw, s.Number, 10)
		return true
	case shape.Text:
		w.Raw = append(w.Raw, `\"`...)
		w.Raw = append(w.Raw, s.Text...)
		w.Raw = append(w.Raw, `\"`...)
		return Plain(s.Text)
	}
	return false
}

// Leaf writes a value without owned parts.
func (w *Writer) Leaf() { w.Raw = append(w.Raw, "{}"...) }

// Recursive walks call Begin and End, not Within with a closure, to keep stack frames small: a
// goroutine's stack is copied when it grows.

// Begin opens a value with parts. self means that the value itself is owned too.
func (w *Writer) Begin(self bool) (start, parts int) {
	start = len(w.Raw)
	w.Raw = append(w.Raw, '{')
	if self {
		w.Raw = append(w.Raw, `".":{}`...)
	}
	return start, len(w.Raw)
}

// End closes the value. If no part is owned, End removes it and returns false.
func (w *Writer) End(start, parts int, self bool) (owned bool) {
	if len(w.Raw) > parts {
		w.Raw = append(w.Raw, '}')
		return true
	}
	w.Raw = w.Raw[:start]
	if self {
		w.Leaf()
	}
	return self
}

// Within writes a value with parts.
func (w *Writer) Within(self bool, write func() bool) (owned, ok bool) {
	start, parts := w.Begin(self)
	if !write() {
		return false, false
	}
	return w.End(start, parts, self), true
}

// Member writes a member, unless no part of it is owned.
func (w *Writer) Member(name string, value func() (owned, ok bool)) bool {
	start := len(w.Raw)
	if !w.Name(name) {
		return false
	}
	owned, ok := value()
	if !owned {
		w.Raw = w.Raw[:start]
	}
	return ok
}

// Unwritten checks a value without writing it.
func (w *Writer) Unwritten(value func() (owned, ok bool)) bool {
	start := len(w.Raw)
	_, ok := value()
	w.Raw = w.Raw[:start]
	return ok
}
