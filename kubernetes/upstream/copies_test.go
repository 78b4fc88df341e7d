package upstream_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// original is a declaration of Kubernetes that Kelson implements itself.
type original struct{ path, name string }

// copies returns the originals of copies.txt, with the files that implement each of them.
func copies(t *testing.T) map[original][]string {
	t.Helper()
	all := map[original][]string{}
	for _, row := range rows(t, "copies.txt") {
		if len(row) < 3 {
			t.Errorf("copies.txt: %q is not: our file or folder, Kubernetes' package or file, names or *", row)
			continue
		}
		ours, path := row[0], row[1]
		if _, err := os.Stat(filepath.Join("../..", ours)); err != nil {
			t.Errorf("copies.txt: %s does not exist: name the file that implements %s now", ours, path)
		}
		names := row[2:]
		found := declarationsOf(t, path)
		if slices.Equal(names, []string{"*"}) {
			names = slices.Collect(maps.Keys(found))
		}
		for _, name := range names {
			o := original{path, name}
			if found[name] == nil {
				t.Errorf("%s implements %s %s, which does not exist in this version of Kubernetes", ours, path, name)
				continue
			}
			all[o] = append(all[o], ours)
		}
	}
	return all
}

// Each function of Kubernetes that Kelson implements again is as it was when the copy was last
// compared with it. A failure names the copy that needs a look; -update accepts the change.
func TestOriginals(t *testing.T) {
	originals := copies(t)
	now := map[original]string{}
	sources := map[string]map[string]string{}
	for o := range originals {
		if sources[o.path] == nil {
			sources[o.path] = map[string]string{}
			for name, node := range declarationsOf(t, o.path) {
				sources[o.path][name] = hash(t, node)
			}
		}
		now[o] = sources[o.path][o.name]
	}
	if *update {
		writeOriginals(t, now)
		return
	}
	then := map[original]string{}
	for _, row := range rows(t, "originals.txt") {
		then[original{row[0], row[1]}] = row[2]
	}
	for _, o := range slices.SortedFunc(maps.Keys(now), compare) {
		switch was, found := then[o]; {
		case !found:
			t.Errorf("%s %s is new: should %s do what it does?", o.path, o.name, strings.Join(originals[o], ", "))
		case was != now[o]:
			t.Errorf("%s %s has changed: does %s need the change?", o.path, o.name, strings.Join(originals[o], ", "))
		}
	}
	for o := range then {
		if now[o] == "" {
			t.Errorf("%s %s is in originals.txt, but no longer in Kubernetes or in copies.txt", o.path, o.name)
		}
	}
	if t.Failed() {
		t.Log("after the decisions: go test ./kubernetes/upstream -update")
	}
}

// The hash of a function changes with its signature and its body, and not with comments and layout.
func TestHash(t *testing.T) {
	of := func(text string) string {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+text, parser.SkipObjectResolution)
		require.NoError(t, err)
		return hash(t, declarations([]*ast.File{file})["T.f"])
	}
	same := of("func (t *T) f(a int) error { return g(a) }")
	for text, equal := range map[string]bool{
		"// f is documented.\nfunc (t *T) f(a int) error {\n\n\t// why\n\treturn g(a) // how\n}": true,
		"func (t *T) f(a int, b int) error { return g(a) }":                                      false,
		"func (t T) f(a int) error { return g(a) }":                                              false,
		"func (t *T) f(a int) error { return g(a + 1) }":                                         false,
	} {
		got := of(text)
		assert.Equalf(t, got == same, equal, "%s: hash %s, that of the original is %s", text, got, same)
	}
}

func compare(a, b original) int {
	if c := strings.Compare(a.path, b.path); c != 0 {
		return c
	}
	return strings.Compare(a.name, b.name)
}

func writeOriginals(t *testing.T, now map[original]string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Written by go test ./kubernetes/upstream -update: the declarations of copies.txt, with hashes of their sources without comments.\n")
	for _, o := range slices.SortedFunc(maps.Keys(now), compare) {
		b.WriteString(o.path + " " + o.name + " " + now[o] + "\n")
	}
	require.NoError(t, os.WriteFile("originals.txt", []byte(b.String()), 0o644))
}
