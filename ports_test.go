package kelson_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

// TestPortsAreListed compares the packages that answer on a port with the table in
// docs/reference/security.md, which has the reason of each that does not use the pipeline of the
// API server.
func TestPortsAreListed(t *testing.T) {
	page, err := os.ReadFile("docs/reference/security.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "<!-- ports -->")
	table, _, _ = strings.Cut(table, "<!-- end of ports -->")
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` ").FindAllStringSubmatch(table, -1) {
		listed[row[1]] = true
	}
	found := map[string]bool{"kubernetes/ephemeral": true} // a part of the port of kelson serve
	for _, root := range []string{"apiserver", "kubernetes", "cmd/kelson", "console", "lab", "toolchain", "operator"} {
		serversBelow(t, root, found)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !listed[name] {
			t.Errorf("%s answers on a port: add it to the table of docs/reference/security.md", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !found[name] {
			t.Errorf("docs/reference/security.md lists %s, which does not answer on a port", name)
		}
	}
}

// serversBelow adds the packages below a directory that create an http.Server.
func serversBelow(t *testing.T, root string, found map[string]bool) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), "_") ||
			strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(text), "http\"") && !strings.Contains(string(text), "serving\"") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if createsServer(file) {
			found[filepath.ToSlash(filepath.Dir(name))] = true
		}
		return nil
	})
	require.NoError(t, err)
}

// createsServer reports whether a file creates or uses an HTTP server.
func createsServer(file *ast.File) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			found = found || isName(n.Type, "http", "Server")
		case *ast.CallExpr:
			for _, name := range []string{"Serve", "ServeTLS", "ListenAndServe", "ListenAndServeTLS"} {
				found = found || isName(n.Fun, "http", name)
			}
			found = found || isName(n.Fun, "serving", "New")
		}
		return !found
	})
	return found
}

// isName reports whether an expression is the name of a package's member.
func isName(e ast.Expr, pkg, name string) bool {
	selector, ok := e.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != name {
		return false
	}
	base, ok := selector.X.(*ast.Ident)
	return ok && base.Name == pkg
}
