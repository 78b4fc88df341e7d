package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// kelson man writes a page for each command, equal for equal dates.
func TestMan(t *testing.T) {
	dir := t.TempDir()
	root := rootCommand()
	root.SetArgs([]string{"man", "--date=2026-11-24", dir})
	require.NoError(t, root.Execute())
	page, err := os.ReadFile(filepath.Join(dir, "kelson-data-backup.1"))
	require.NoError(t, err)
	for _, want := range []string{`.TH "KELSON-DATA-BACKUP" "1" "Nov 2026" "kelson `, "kelson data backup",
		"SEE ALSO"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(pages) < 40 {
		t.Errorf("%d pages, %v", len(pages), err)
	}
	root = rootCommand()
	root.SetArgs([]string{"man", "--date=yesterday", dir})
	assert.ErrorContainsf(t, root.Execute(), "--date", "a wrong date")
}
