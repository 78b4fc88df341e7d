package kelson_test

import (
	"regexp"
	"strings"
	"testing"
)

// TestReadmeFigures checks that the figures in the README's table are those of a row in
// docs/internals/benchmarks.md, which make bench writes.
func TestReadmeFigures(t *testing.T) {
	measured := strings.Split(source(t, "docs/internals/benchmarks.md"), "\n")
	rows := 0
	for line := range strings.Lines(source(t, "README.md")) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 || !strings.Contains(cells[4], "×") {
			continue
		}
		rows++
		var figures []string
		for _, cell := range cells[2:5] {
			// a remark such as "(in process)" follows the figure
			figure, _, _ := strings.Cut(strings.TrimSpace(cell), " (")
			figures = append(figures, regexp.QuoteMeta(figure))
		}
		row := regexp.MustCompile(`\| ` + strings.Join(figures, ` \| `) + ` ✓ \|`)
		found := false
		for _, m := range measured {
			found = found || row.MatchString(m)
		}
		if !found {
			t.Errorf("README.md: no row of docs/internals/benchmarks.md has the figures of %q", cells[1])
		}
	}
	if rows != 3 {
		t.Errorf("README.md: %d figures, want 3", rows)
	}
}
