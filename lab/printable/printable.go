// Package printable makes values from other sources safe to show on a terminal. Names, annotations
// and messages in a cluster may contain characters that move the cursor, change the order of the
// text or are not visible, so that a line shows something else than the value.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible reports whether a terminal shows a character in its place. Control characters (C0, DEL
// and C1), line and paragraph separators, and invisible format characters are not visible. The
// latter include those that change the direction of text, and zero-width spaces. Joiners (U+200C,
// U+200D) count as visible, because some scripts and emoji need them.
func Visible(r rune) bool {
	switch {
	case r == '\u200c', r == '\u200d':
		return true
	case r == '\u2028', r == '\u2029', unicode.IsControl(r), unicode.Is(unicode.Cf, r):
		return false
	}
	return true
}

// Escape returns text with an escape, such as \u202e or \x9b, instead of each character that is not
// visible and each byte that is not UTF-8. A line break is one of those characters.
func Escape(text string) string {
	if clean(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		b.WriteString(escaped(r, text[:size]))
		text = text[size:]
	}
	return b.String()
}

func clean(text string) bool {
	for _, r := range text {
		if r == utf8.RuneError || !Visible(r) {
			return false
		}
	}
	return true
}

// escaped returns how a character is shown; text is its encoding.
func escaped(r rune, text string) string {
	switch {
	case r == utf8.RuneError && len(text) == 1:
		return fmt.Sprintf(`\x%02x`, text[0])
	case Visible(r):
		return text
	case r > 0xffff:
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
