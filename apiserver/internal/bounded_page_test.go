package internal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

// Every row of the table of outgoing calls names a test of its limits that exists.
func TestTableOfCalls(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "security.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "### Calls of other servers")
	if section, _, _ = strings.Cut(section, "\n### "); !found {
		t.Fatal("no section about calls of other servers")
	}
	names := regexp.MustCompile(`\bTest[A-Z]\w+`)
	tests := testNames(t)
	rows := 0
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| call |") {
			continue
		}
		rows++
		named := names.FindAllString(line, -1)
		if len(named) == 0 {
			t.Errorf("no test in the row %s", line)
		}
		for _, name := range named {
			if !tests[name] {
				t.Errorf("no test %s, which is in the row %s", name, line)
			}
		}
	}
	if rows < 10 {
		t.Errorf("%d rows", rows)
	}
}

// testNames returns the names of all test functions of the repository.
func testNames(t *testing.T) map[string]bool {
	all := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "bin" || strings.HasPrefix(entry.Name(), ".") && len(entry.Name()) > 2):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, found := range function.FindAllSubmatch(text, -1) {
			all[string(found[1])] = true
		}
		return err
	})
	require.NoError(t, err)
	return all
}
