package testenv_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

// calls returns the exported functions of a package and the exported methods of its Env.
func calls(t *testing.T, dir string) map[string]bool {
	t.Helper()
	pkgs, err := parser.ParseDir(token.NewFileSet(), dir, func(f fs.FileInfo) bool {
		return !strings.HasSuffix(f.Name(), "_test.go")
	}, 0)
	require.NoError(t, err)
	found := map[string]bool{}
	for _, pkg := range pkgs {
		for _, file := range pkg.Files {
			for _, decl := range file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if !ok || !f.Name.IsExported() {
					continue
				}
				if f.Recv != nil {
					if star, ok := f.Recv.List[0].Type.(*ast.StarExpr); !ok || star.X.(*ast.Ident).Name != "Env" {
						continue
					}
				}
				found[f.Name.Name] = true
			}
		}
	}
	if len(found) < 15 {
		t.Fatalf("only %d calls in %s", len(found), dir)
	}
	return found
}

// operatortest has the calls of testenv, except those in the table of the guide, and no others.
func TestCallsOfOperatortest(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guides/testing.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(guide), "| in testenv only | why | instead |\n")
	if !ok {
		t.Fatal("the guide has no table of calls")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	documented := map[string]bool{}
	name := regexp.MustCompile("`([A-Z][A-Za-z]*)")
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) < 5 {
			t.Fatalf("a row of the table: %q", row)
		}
		for _, match := range name.FindAllStringSubmatch(cells[1], -1) {
			documented[match[1]] = true
			if strings.TrimSpace(cells[2]) == "" {
				t.Errorf("the guide does not say why operatortest lacks %s", match[1])
			}
		}
	}
	inTestenv, inOperatortest := calls(t, "."), calls(t, "../../operator/operatortest")
	for _, call := range slices.Sorted(maps.Keys(inTestenv)) {
		if inOperatortest[call] == documented[call] {
			t.Errorf("%s: operatortest has it: %v; the table of docs/guides/testing.md lists it as missing: %v", call,
				inOperatortest[call], documented[call])
		}
	}
	for _, call := range slices.Sorted(maps.Keys(inOperatortest)) {
		if !inTestenv[call] {
			t.Errorf("operatortest has %s, testenv does not", call)
		}
	}
	for call := range documented {
		if !inTestenv[call] {
			t.Errorf("the table lists %s, which testenv does not have", call)
		}
	}
}
