package kelson_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

// worn matches phrases that plain modern technical English does not use. CONTRIBUTING.md explains
// how to write instead.
var worn = regexp.MustCompile(`(?i)\b(anew|whoever|whomever|whom|nobody|goes on|go on|is told|are told|was told|hears of|hear of|` +
	`the way of an?|is no (object|number|list|name|kind|string|file|field|map|value)|as it were|lest|thereby|likewise|` +
	`what there is|stands? in the way|in the place of|takes? the place of|and the like|nothing of|nothing but|for good|in vain|once more|over again|hence|whereby|therein|is what|for itself alone|be it|may serve|such as are)\b`)

// exempt lists files and folders whose text is input of tests or must not change.
var exempt = map[string]string{
	"toolchain/gen/crd/emit_test.go": "a long line as the input of a test",
}

// unrevised lists folders and files whose prose still needs the rewrite. Remove an entry when its
// text passes; do not add one.
var unrevised = []string{}

// TestProse rejects worn phrases in comments and string literals of Go files, and in documentation.
func TestProse(t *testing.T) {
	found := map[string]bool{} // entries of unrevised that still have worn phrases
	check := func(name string, line int, text string) {
		match := worn.FindString(text)
		if match == "" {
			return
		}
		for prefix := range exempt {
			if name == prefix || strings.HasPrefix(name, prefix+"/") {
				return
			}
		}
		for _, prefix := range unrevised {
			if name == prefix || strings.HasPrefix(name, prefix+"/") {
				found[prefix] = true
				return
			}
		}
		t.Errorf("%s:%d: rewrite %q in plain English: %s", name, line, match, strings.TrimSpace(text))
	}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if base := d.Name(); base == "testdata" || base == "bin" || base == "node_modules" ||
				strings.HasPrefix(base, ".") && name != "." {
				return filepath.SkipDir
			}
			return nil
		}
		switch filepath.Ext(name) {
		case ".go":
			if name == "prose_test.go" {
				return nil
			}
			return eachGoText(name, check)
		case ".md", ".sh":
			return eachLine(name, check)
		}
		if d.Name() == "Makefile" {
			return eachLine(name, check)
		}
		return nil
	})
	require.NoError(t, err)
	for _, prefix := range unrevised {
		if !found[prefix] {
			t.Errorf("%s has no worn phrases: remove it from unrevised", prefix)
		}
	}
}

func eachLine(name string, check func(name string, line int, text string)) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for i, line := range strings.Split(string(data), "\n") {
		check(name, i+1, line)
	}
	return nil
}

// eachGoText calls check with every line of the comments and string literals of a Go file.
func eachGoText(name string, check func(name string, line int, text string)) error {
	src, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	file := files.AddFile(name, -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		switch tok {
		case token.EOF:
			return nil
		case token.COMMENT, token.STRING:
			if text == `"nobody"` { // the name of a user
				continue
			}
			for i, line := range strings.Split(text, "\n") {
				check(name, file.Line(pos)+i, line)
			}
		}
	}
}
