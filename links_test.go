package kelson_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"kelson.dev/internal/require"
)

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`^#{1,6} +(.*?)[ #]*$`)
	code    = regexp.MustCompile("`[^`]*`")
	anchor  = regexp.MustCompile(`<a (?:id|name)="([^"]+)">`)
)

// TestLinks checks that every relative link in Markdown files leads to a file or folder of the
// repository, and that every fragment names a heading of the page.
func TestLinks(t *testing.T) {
	var pages []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := d.Name()
			// Templates of projects, such as those in _template, link to files of the project that
			// they create.
			if base == "testdata" || base == "bin" || base == "node_modules" || strings.HasPrefix(base, "_") ||
				strings.HasPrefix(base, ".") && name != "." {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) == ".md" {
			pages = append(pages, name)
		}
		return nil
	})
	require.NoError(t, err)
	headings := map[string]map[string]bool{} // of each page that a fragment names
	for _, page := range pages {
		for n, line := range prose(t, page) {
			for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
				if strings.Contains(match[1], ":") { // a URL or a mail address
					continue
				}
				name, fragment, _ := strings.Cut(match[1], "#")
				target := page
				if name != "" {
					target = filepath.Join(filepath.Dir(page), name)
				}
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s:%d: the target of the link %s does not exist: %v", page, n+1, match[1], err)
					continue
				}
				if fragment == "" || filepath.Ext(target) != ".md" {
					continue
				}
				if headings[target] == nil {
					headings[target] = fragments(t, target)
				}
				if !headings[target][fragment] {
					t.Errorf("%s:%d: %s has no heading for the link %s", page, n+1, target, match[1])
				}
			}
		}
	}
}

// prose returns the lines of a page, with those of fenced code blocks left empty.
func prose(t *testing.T, page string) []string {
	t.Helper()
	data, err := os.ReadFile(page)
	require.NoError(t, err)
	lines, fenced := strings.Split(string(data), "\n"), false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			fenced = !fenced
		}
		if fence || fenced {
			lines[i] = ""
		}
	}
	return lines
}

// fragments returns the fragments that a page has: GitHub's names of its headings, and explicit
// anchors.
func fragments(t *testing.T, page string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, line := range prose(t, page) {
		if match := heading.FindStringSubmatch(line); match != nil {
			found[fragment(match[1])] = true
		}
		for _, match := range anchor.FindAllStringSubmatch(line, -1) {
			found[match[1]] = true
		}
	}
	return found
}

// fragment returns GitHub's name of a heading: lower case, spaces as hyphens, without punctuation.
func fragment(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}
