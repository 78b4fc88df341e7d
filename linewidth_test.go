package kelson_test

import (
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	// maxCode is the width of a line of code, with a tab counted as four columns.
	maxCode = 120
	// maxWide is how many of a thousand lines of written code may be wider: those that are one
	// string, or that a break would make harder to read.
	maxWide = 6
)

// TestLineWidth counts the lines of Go code that are wider than maxCode, without generated files
// and test data.
func TestLineWidth(t *testing.T) {
	lines, wide, worst, most := 0, 0, "", 0
	for name, src := range trackedFiles(t, "*.go") {
		if isGenerated(src) || strings.Contains(name, "testdata/") || strings.Contains(name, "/_") {
			continue
		}
		inFile := 0
		for line := range strings.Lines(string(src)) {
			lines++
			if utf8.RuneCountInString(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")) > maxCode {
				inFile++
			}
		}
		wide += inFile
		if inFile > most {
			worst, most = name, inFile
		}
	}
	if wide*1000 > maxWide*lines {
		t.Errorf("%d of %d lines are wider than %d columns, more than %d of 1,000; %s has %d of them",
			wide, lines, maxCode, maxWide, worst, most)
	}
}
