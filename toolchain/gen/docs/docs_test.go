package docs

import (
	"testing"

	"kelson.dev/internal/assert"
)

// Text and code in cells of tables neither end the cell nor become HTML.
func TestCells(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{cell("a | b <c> & `<d>|`\n e"), "a \\| b &lt;c> &amp; `<d>\\|` e"},
		{cell("an unpaired ` and <x>"), "an unpaired ` and &lt;x>"},
		{cell("``a`<b>`` <c>"), "``a`<b>`` &lt;c>"},
		{text("a\n\n<b> | c"), "a\n\n&lt;b> | c"},
		{code("a|b"), "`a\\|b`"},
		{code("a`b"), "``a`b``"},
		{code("`"), "`` ` ``"},
		{code("<a>"), "`<a>`"},
		{code(""), `""`},
	} {
		assert.Equal(t, test.got, test.want)
	}
}
