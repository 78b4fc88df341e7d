package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// write replaces the section; the rest of the page does not change.
func TestWrite(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	const before, after = "# Page\n\nbefore\n\n", "after\n"
	require.NoError(t, os.WriteFile(page, []byte(before+sectionBegin+"old\n"+sectionEnd+after), 0o600))
	table := &table{}
	table.group("Group")
	table.row("what", seconds, 2, 1, atMost(0.5))
	table.row("more", seconds, 2, 1.5, atMost(0.5))
	require.NoError(t, table.write(page))
	data, err := os.ReadFile(page)
	require.NoError(t, err)
	text := string(data)
	if !strings.HasPrefix(text, before+sectionBegin+"## ") || !strings.HasSuffix(text, sectionEnd+after) ||
		strings.Contains(text, "old") ||
		!strings.Contains(text, "| what | 2.00 s | 1.00 s | 0.50 × | ≤ 0.50 × | met |") ||
		!strings.Contains(text, "| 0.75 × | ≤ 0.50 × | missed |") {
		t.Error(text)
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
