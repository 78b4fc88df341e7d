package kelson_test

import (
	"go/scanner"
	"go/token"
	"iter"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"kelson.dev/internal/require"
)

// maxColumns is the maximum width of a line with a comment, with a tab counted as four columns.
const maxColumns = 100

// unwrappable matches comments that cannot be wrapped: directives, markers, preformatted text
// (tables, code, drawings), which gofmt indents, and lines that are one word, such as a URL. The
// output of examples cannot be wrapped either.
var unwrappable = regexp.MustCompile(`^//(go:|lint:|nolint|export |\s*\+|\t|    |\s*\S+$)`)

// trackedFiles yields the files that git tracks and a pattern matches. It skips the test outside of
// a checkout.
func trackedFiles(t *testing.T, pattern string) iter.Seq2[string, []byte] {
	t.Helper()
	out, err := exec.Command("git", "ls-files", pattern).Output()
	if err != nil {
		t.Skip("needs a git checkout: ", err)
	}
	return func(yield func(string, []byte) bool) {
		for name := range strings.FieldsSeq(string(out)) {
			src, err := os.ReadFile(name)
			if os.IsNotExist(err) {
				continue // removed, but not committed
			}
			require.NoError(t, err)
			if !yield(name, src) {
				return
			}
		}
	}
}

// isGenerated reports whether a program has written a Go file.
func isGenerated(src []byte) bool { return strings.Contains("\n"+string(src), "\n// Code generated ") }

// TestCommentWidth rejects Go comments that are wider than maxColumns, except for those that cannot
// be wrapped and generated files.
func TestCommentWidth(t *testing.T) {
	for name, src := range trackedFiles(t, "*.go") {
		if isGenerated(src) {
			continue
		}
		for _, line := range wideComments(src) {
			t.Errorf("%s:%d: wrap the comment at %d columns, or put it above the line", name, line, maxColumns)
		}
	}
}

// wideComments returns the numbers of the lines whose comments are too wide.
func wideComments(src []byte) (wide []int) {
	lines := strings.Split(string(src), "\n")
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	output := -1 // the last line of the output of an example
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return wide
		}
		at := file.Line(pos)
		if tok == token.COMMENT && (strings.HasPrefix(text, "// Output:") || output == at-1) {
			output = at
			continue
		}
		if tok != token.COMMENT || unwrappable.MatchString(text) {
			continue
		}
		if columns := utf8.RuneCountInString(strings.ReplaceAll(lines[at-1], "\t", "    ")); columns > maxColumns {
			wide = append(wide, at)
		}
	}
}

func TestWideComments(t *testing.T) {
	long := strings.Repeat("word ", 20)
	for src, want := range map[string]int{
		"// short":                  0,
		"// " + long:                1,
		"var a int // " + long:      1,
		"var a = `// " + long + "`": 0,
		"// Output:\n// " + long + "\n// " + long: 0,
		"//go:generate " + long:                   0,
		"// +kubebuilder:rbac:" + long:            0,
		"//\t" + long:                             0,
		"// https://" + strings.Repeat("x", 100):  0,
		"\t\t// " + long[:90]:                     1,
	} {
		if got := len(wideComments([]byte("package p\n" + src + "\n"))); got != want {
			t.Errorf("%q: %d wide comments, want %d", src, got, want)
		}
	}
}

// generatedDocs lists documents that commands write. Tests of these commands compare the complete
// texts.
var generatedDocs = []string{
	"docs/internals/benchmarks.md", "docs/internals/conformance.md", "docs/internals/differential.md",
	"docs/reference/commands.md", "docs/reference/flags.md", "docs/reference/generators.md",
	"docs/reference/markers.md",
	"docs/reference/security.md", "toolchain/scaffold/_template/", "test/generators/",
}

// TestMarkdownWidth rejects lines of text in Markdown that are wider than maxColumns. Tables, code,
// lines with links and generated documents may be wider.
func TestMarkdownWidth(t *testing.T) {
	for name, text := range trackedFiles(t, "*.md") {
		if slices.ContainsFunc(generatedDocs, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		for _, line := range wideText(string(text)) {
			t.Errorf("%s:%d: wrap the text at %d columns", name, line, maxColumns)
		}
	}
}

// wideText returns the numbers of the lines of a Markdown document that are too wide.
func wideText(text string) (wide []int) {
	code := false
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			code = !code
			continue
		}
		if code || strings.HasPrefix(trimmed, "|") || strings.HasPrefix(trimmed, "<!--") ||
			strings.Contains(line, "](") {
			continue
		}
		if utf8.RuneCountInString(line) > maxColumns && strings.Contains(trimmed, " ") {
			wide = append(wide, i+1)
		}
	}
	return wide
}

func TestWideText(t *testing.T) {
	long := strings.Repeat("word ", 21)
	for text, want := range map[string]int{
		"short":                              0,
		long:                                 1,
		"- " + long:                          1,
		"| " + long + "|":                    0,
		"```sh\n" + long + "\n```":           0,
		"```sh\nx\n```\n" + long:             1,
		long + "[link](url)":                 0,
		"`" + strings.Repeat("x", 101) + "`": 0,
	} {
		if got := len(wideText(text)); got != want {
			t.Errorf("%q: %d wide lines, want %d", text, got, want)
		}
	}
}
