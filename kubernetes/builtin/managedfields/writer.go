package managedfields

import (
	"slices"
	"strconv"
	"strings"
	"sync"
)

// writer encodes a field set as the library does: members sorted, and "." first in a value that is owned itself and has owned parts.
type writer struct {
	raw   []byte
	names []string // of the enclosing maps
	marks []mark   // of the enclosing lists
}

// mark is the key of an element of a list.
type mark struct {
	at  int // where it is
	in  int // where it is in another list
	key [mostKeys]scalar
}

// mostKeys is the number of key members of a list that the writer supports.
const mostKeys = 3

// scalar is the value of a key member.
type scalar struct {
	kind   kind // text or number; unknown: there is none
	text   string
	number int64
}

func scalarOf(value any) (scalar, bool) {
	switch v := value.(type) {
	case string:
		return scalar{kind: text, text: v}, true
	case int64:
		return scalar{kind: number, number: v}, true
	case int:
		return scalar{kind: number, number: int64(v)}, true
	}
	return scalar{}, false
}

func (a mark) compare(b mark) int {
	for i := range a.key {
		x, y := a.key[i], b.key[i]
		switch {
		case x.kind != y.kind: // numbers first
			return int(y.kind) - int(x.kind)
		case x.text != y.text:
			return strings.Compare(x.text, y.text)
		case x.number < y.number:
			return -1
		case x.number > y.number:
			return 1
		}
	}
	return 0
}

var writers = sync.Pool{New: func() any { return &writer{raw: make([]byte, 0, 1<<10)} }}

// The sizes, in bytes, names and marks, above which a writer is not reused.
const (
	mostBytes = 64 << 10
	mostNames = 1 << 10
	mostMarks = 1 << 7
)

func newWriter() *writer { return writers.Get().(*writer) }

func (w *writer) free() {
	if cap(w.raw) > mostBytes || cap(w.names) > mostNames || cap(w.marks) > mostMarks {
		return
	}
	clear(w.names[:cap(w.names)])
	clear(w.marks[:cap(w.marks)])
	w.raw, w.names, w.marks = w.raw[:0], w.names[:0], w.marks[:0]
	writers.Put(w)
}

// plain reports whether a string needs no escapes in JSON, nor in a JSON string within JSON.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

func (w *writer) comma() {
	if w.raw[len(w.raw)-1] != '{' {
		w.raw = append(w.raw, ',')
	}
}

// name writes the name of a member of a map.
func (w *writer) name(name string) bool {
	if !plain(name) {
		return false
	}
	w.comma()
	w.raw = append(w.raw, `"f:`...)
	w.raw = append(w.raw, name...)
	w.raw = append(w.raw, `":`...)
	return true
}

// element writes the key of an element of a list.
func (w *writer) element(m *mark, keys []key) bool {
	w.comma()
	if len(keys) == 0 {
		w.raw = append(w.raw, `"v:`...)
		if !w.scalar(m.key[0]) {
			return false
		}
		w.raw = append(w.raw, `":`...)
		return true
	}
	w.raw = append(w.raw, `"k:{`...)
	for i, k := range keys {
		if i > 0 {
			w.raw = append(w.raw, ',')
		}
		w.raw = append(w.raw, `\"`...)
		w.raw = append(w.raw, k.name...)
		w.raw = append(w.raw, `\":`...)
		if !w.scalar(m.key[i]) {
			return false
		}
	}
	w.raw = append(w.raw, `}":`...)
	return true
}

func (w *writer) scalar(s scalar) bool {
	switch s.kind {
	case number:
		w.raw = strconv.AppendInt(w.raw, s.number, 10)
		return true
	case text:
		w.raw = append(w.raw, `\"`...)
		w.raw = append(w.raw, s.text...)
		w.raw = append(w.raw, `\"`...)
		return plain(s.text)
	}
	return false
}

func (w *writer) leaf() { w.raw = append(w.raw, "{}"...) }

// The walks below call themselves directly, without closures, to keep stack frames small: a goroutine's stack is copied when it grows.

// begin opens a value with parts. self says whether the value itself is owned too.
func (w *writer) begin(self bool) (start, parts int) {
	start = len(w.raw)
	w.raw = append(w.raw, '{')
	if self {
		w.raw = append(w.raw, `".":{}`...)
	}
	return start, len(w.raw)
}

// end closes the value. If no part is owned, end removes it and returns false.
func (w *writer) end(start, parts int, self bool) (owned bool) {
	if len(w.raw) > parts {
		w.raw = append(w.raw, '}')
		return true
	}
	w.raw = w.raw[:start]
	if self {
		w.leaf()
	}
	return self
}

// within writes a value with parts.
func (w *writer) within(self bool, write func() bool) (owned, ok bool) {
	start, parts := w.begin(self)
	if !write() {
		return false, false
	}
	return w.end(start, parts, self), true
}

// member writes a member, unless no part of it is owned.
func (w *writer) member(name string, value func() (owned, ok bool)) bool {
	start := len(w.raw)
	if !w.name(name) {
		return false
	}
	owned, ok := value()
	if !owned {
		w.raw = w.raw[:start]
	}
	return ok
}

// unwritten checks a value without writing it.
func (w *writer) unwritten(value func() (owned, ok bool)) bool {
	start := len(w.raw)
	_, ok := value()
	w.raw = w.raw[:start]
	return ok
}

// sortMarks sorts the elements marked since base. ok is false if two have the same key.
func (w *writer) sortMarks(base int) (ok bool) {
	marks := w.marks[base:]
	if len(marks) < 2 {
		return true
	}
	slices.SortFunc(marks, mark.compare)
	for i := range marks[1:] {
		if marks[i].compare(marks[i+1]) == 0 {
			return false
		}
	}
	return true
}

// The fields that no manager owns: those that the server sets and those that identify the object.

// identifying are the unowned fields of metadata.
var identifying = map[string]bool{
	"name": true, "namespace": true, "creationTimestamp": true, "selfLink": true, "uid": true, "clusterName": true, "generation": true,
	"managedFields": true, "resourceVersion": true,
}
