package managedfields

import (
	"slices"
	"strconv"
	"strings"
	"sync"
)

// writer writes a field set as the library encodes it: members in order, and each that is owned itself and has parts that are with a "." first.
type writer struct {
	raw   []byte
	names []string // of the maps it is in
	marks []mark   // of the lists it is in
}

// mark is what an element of a list is known by.
type mark struct {
	at  int // where it is
	in  int // where it is in another list
	key [mostKeys]scalar
}

// mostKeys is how many keys a list may have here.
const mostKeys = 3

// scalar is a value that an element can be known by.
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

// How large a writer may be to be used again: in bytes, names and marks.
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

// plain says that a text stands for itself in JSON, and in a text in JSON.
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

// name begins a member of a map.
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

// element begins an element of a list.
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

// The walks below are plain loops that call themselves: a request's stack is small at first, and has to be copied when it is not enough.

// begin opens a value that has parts; self says whether it is owned itself as well.
func (w *writer) begin(self bool) (start, parts int) {
	start = len(w.raw)
	w.raw = append(w.raw, '{')
	if self {
		w.raw = append(w.raw, `".":{}`...)
	}
	return start, len(w.raw)
}

// end closes it. owned is false if it has come to nothing, which then is not written.
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

// within writes a value that has parts.
func (w *writer) within(self bool, write func() bool) (owned, ok bool) {
	start, parts := w.begin(self)
	if !write() {
		return false, false
	}
	return w.end(start, parts, self), true
}

// member writes a member, unless value comes to nothing.
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

// unwritten judges a value without writing it.
func (w *writer) unwritten(value func() (owned, ok bool)) bool {
	start := len(w.raw)
	_, ok := value()
	w.raw = w.raw[:start]
	return ok
}

// sortMarks brings the elements that were marked since base in order. ok is false if two are known by the same.
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

// The fields that are nobody's: what the server sets, and what says which object it is.

// identifying are those of them in metadata.
var identifying = map[string]bool{
	"name": true, "namespace": true, "creationTimestamp": true, "selfLink": true, "uid": true, "clusterName": true, "generation": true,
	"managedFields": true, "resourceVersion": true,
}
