package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// write appends the section at first, and then replaces it; the rest of the page does not change.
func TestWrite(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(page, []byte("# Page\n\nbefore\n"), 0o600))
	write := func(ours float64) string {
		t.Helper()
		table := &table{}
		table.group("Group")
		table.row("what", seconds, 2, ours, atMost(0.5))
		require.NoError(t, table.write(page))
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		return string(text)
	}
	if text := write(1); !strings.HasPrefix(text, "# Page\n\nbefore\n\n"+sectionBegin) ||
		!strings.Contains(text, "| what | 2.00 s | 1.00 s | 0.50 × | ≤ 0.50 × | met |") {
		t.Errorf("first:\n%s", text)
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(page, append(text, "after\n"...), 0o600))
	got := write(1.5)
	if strings.Count(got, sectionBegin) != 1 || !strings.HasSuffix(got, sectionEnd+"after\n") ||
		!strings.Contains(got, "| 0.75 × | ≤ 0.50 × | missed |") {
		t.Errorf("second:\n%s", got)
	}
}

// A run at half the machine's speed does not distort the result, because the table uses the ratio
// of each run.
func TestPairs(t *testing.T) {
	table := &table{}
	table.group("Group")
	table.pairs("what", seconds, []float64{10, 30, 20}, []float64{5, 12, 11}, atMost(0.5))
	table.pairs("what", seconds, []float64{10, 30, 20}, []float64{6, 15, 11}, atMost(0.5))
	want := []row{
		{what: "what", theirs: "20.00 s", ours: "11.00 s", ratio: "0.50 ×", want: "≤ 0.50 ×", check: "met"},
		{what: "what", theirs: "20.00 s", ours: "11.00 s", ratio: "0.55 ×", want: "≤ 0.50 ×", check: "missed"},
	}
	assert.Slice(t, table.rows["Group"], want)
}
