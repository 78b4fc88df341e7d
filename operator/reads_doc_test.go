package operator_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadsPage checks that the tests named in docs/guides/reads.md exist, and that each sentence
// of its tables names one.
func TestReadsPage(t *testing.T) {
	page, err := os.ReadFile("../docs/guides/reads.md")
	if os.IsNotExist(err) {
		t.Skip("SKIPPED: the module is not in its repository")
	}
	must(t, err)
	declared := map[string]bool{}
	test := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	must(t, filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := os.ReadFile(name)
		for _, match := range test.FindAllSubmatch(source, -1) {
			declared[string(match[1])] = true
		}
		return err
	}))
	named := regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(string(page), -1)
	if len(named) < 30 {
		t.Errorf("the page names %d tests", len(named))
	}
	for _, name := range named {
		if !declared[name] {
			t.Errorf("docs/guides/reads.md names %s, which does not exist", name)
		}
	}
	for n, line := range strings.Split(string(page), "\n") {
		if cells := strings.Split(line, "|"); len(cells) == 4 && strings.HasSuffix(strings.TrimSpace(cells[1]), ".") &&
			!strings.Contains(cells[2], "Test") {
			t.Errorf("docs/guides/reads.md:%d: a sentence without a test", n+1)
		}
	}
}
