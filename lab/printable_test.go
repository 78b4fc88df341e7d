package lab_test

import (
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/printable"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"plain, ä 漢 \U0001f468\u200d\U0001f469": "plain, ä 漢 \U0001f468\u200d\U0001f469",
		"a\x1b[2Jb":                             `a\u001b[2Jb`,
		"\u009b31m":                             `\u009b31m`,
		"\x9b31m":                               `\x9b31m`, // C1 as one byte
		"\u202eevil\u202c \u2066x\u2069 \u200e": `\u202eevil\u202c \u2066x\u2069 \u200e`,
		"\u061c\u200b\ufeff\u2028\u00ad\x7f":    `\u061c\u200b\ufeff\u2028\u00ad\u007f`,
		"\U000e0041":                            `\U000e0041`,
		"a\r\nb\tc":                             `a\u000d\u000ab\u0009c`,
		"\ufffd":                                "\ufffd",
	} {
		assert.Equalf(t, printable.Escape(text), want, "%q", text)
	}
}

// The writer passes the program's own colors, however its output is divided.
func TestWriter(t *testing.T) {
	const (
		text = "\x1b[1mbold\x1b[0m \x1b[31mred\x1b[0m\r\x1b[Kline\r\n\ttab ä\u202e\u009bx\x1b[2J\x1b[8mhidden\x1b]0;title\x07\rover"
		want = "\x1b[1mbold\x1b[0m \x1b[31mred\x1b[0m\r\x1b[Kline\r\n\ttab ä" +
			`\u202e\u009bx\u001b[2J\u001b[8mhidden\u001b]0;title\u0007\u000dover`
	)
	for size := 1; size <= len(text); size++ {
		var out strings.Builder
		w := printable.Writer(&out)
		for from := 0; from < len(text); from += size {
			if n, err := w.Write([]byte(text[from:min(from+size, len(text))])); err != nil || n == 0 {
				t.Fatal(n, err)
			}
		}
		require.Equalf(t, out.String(), want, "in pieces of %d bytes", size)
	}
}
