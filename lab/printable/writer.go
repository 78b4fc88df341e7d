package printable

import (
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// Writer returns a writer to a terminal that escapes what Escape escapes, except line breaks, tabs
// and the sequences of a program's own output: colors, and the deletion of a line. A value with a
// color can do no more than look colored. The writer is safe for concurrent use.
func Writer(to io.Writer) io.Writer { return &writer{to: to} }

type writer struct {
	to   io.Writer
	mu   sync.Mutex
	rest []byte // the beginning of a character or sequence whose end has not been written yet
}

// own are the sequences that pass: bold, faint, and the colors red, green, yellow, blue and cyan,
// with their end, and the deletion of the current line.
var own = regexp.MustCompile(`^(\x1b\[(0|1|2|31|32|33|34|36)?m|\r\x1b\[K|\r\n)`)

// longest is the length of the longest sequence in own.
const longest = len("\x1b[31m")

// Write implements io.Writer. It keeps an incomplete character or sequence until the next call.
func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := string(append(w.rest, p...))
	w.rest = nil
	var b strings.Builder
	for len(text) > 0 {
		if text[0] == '\x1b' || text[0] == '\r' {
			if sequence := own.FindString(text); sequence != "" {
				b.WriteString(sequence)
				text = text[len(sequence):]
				continue
			}
			if len(text) < longest && begins(text) {
				w.rest = []byte(text)
				break
			}
		}
		if !utf8.FullRuneInString(text) {
			w.rest = []byte(text)
			break
		}
		r, size := utf8.DecodeRuneInString(text)
		if r == '\n' || r == '\t' {
			b.WriteByte(text[0])
		} else {
			b.WriteString(escaped(r, text[:size]))
		}
		text = text[size:]
	}
	if _, err := io.WriteString(w.to, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// begins reports whether text may be the beginning of one of the sequences in own.
func begins(text string) bool {
	for _, sequence := range []string{"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[34m",
		"\x1b[36m", "\r\x1b[K", "\r\n"} {
		if strings.HasPrefix(sequence, text) {
			return true
		}
	}
	return false
}
