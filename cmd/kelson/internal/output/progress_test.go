package output

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
)

// On a terminal, progress is one line with the time of the step; messages are above it.
func TestProgressOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		p := &Progress{to: &b, width: 20}
		p.Step("reading %d files", 3)
		time.Sleep(2500 * time.Millisecond)
		fmt.Fprintln(p, "warning")
		p.Step("a step that is wider than the terminal")
		p.Done()
		time.Sleep(5 * time.Second)
		p.Done() // nothing to do
		const begin = "\r\x1b[K"
		want := begin + "reading 3 files" + begin + "reading 3 files (1s" + begin + "reading 3 files (2s" + begin +
			"warning\n" + begin + "a step that is wide" + begin
		assert.Equal(t, b.String(), want)
	})
}

// Updates of a step are written to the terminal only a few times a second, and other output appears
// above the line.
func TestProgressOfALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		p := &Progress{to: &b, width: 40}
		p.Update("not begun")
		p.Step("comparing")
		for i := range 1000 {
			p.Update("comparing %d", i)
			time.Sleep(time.Millisecond)
		}
		synctest.Wait() // the time of the step is written at the same moment
		if lines := strings.Count(b.String(), "\r"); lines < 9 || lines > 13 {
			t.Errorf("a second writes %d times: %q", lines, b.String())
		}
		b.Reset()
		out := p.Above(&b)
		fmt.Fprint(out, "a result")
		fmt.Fprintln(out, " in a line")
		p.Done()
		fmt.Fprintln(out, "after")
		const begin = "\r\x1b[K"
		want := begin + "a result in a line\n" + begin + "comparing 999 (1s)" + begin +
			"after\n"
		assert.Equal(t, b.String(), want)
	})
}

// Without a terminal, each step is a line of its own, or is not printed.
func TestProgressElsewhere(t *testing.T) {
	for lines, want := range map[bool]string{false: "warning\n", true: "one\nwarning\ntwo\n"} {
		var b strings.Builder
		p := NewProgress(&b)
		p.Lines = lines
		p.Step("one")
		fmt.Fprintln(p, "warning")
		p.Step("two")
		p.Done()
		assert.Equalf(t, b.String(), want, "Lines %v", lines)
	}
}
