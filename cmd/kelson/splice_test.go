package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/toolchain/scaffold/goedit"
)

// guideImports are the packages that the Go code of guides uses, by the names that it gives them.
var guideImports = map[string]string{
	"appsv1":       "k8s.io/api/apps/v1",
	"corev1":       "k8s.io/api/core/v1",
	"metav1":       "k8s.io/apimachinery/pkg/apis/meta/v1",
	"runtime":      "k8s.io/apimachinery/pkg/runtime",
	"field":        "k8s.io/apimachinery/pkg/util/validation/field",
	"operatortest": "kelson.dev/operator/operatortest",
	"operator":     "kelson.dev/operator",
	"client":       "kelson.dev/operator/client",
	"reconcile":    "kelson.dev/operator/reconcile",
	"webhook":      "kelson.dev/operator/webhook",
	"context":      "context",
	"errors":       "errors",
	"fmt":          "fmt",
	"time":         "time",
	"testing":      "testing",
}

// spliceFile replaces declarations of a Go file by those on standard input, as an author does in an
// editor, and returns the exit code.
func spliceFile(name string) int {
	src, err := os.ReadFile(name)
	if err == nil {
		var block []byte
		if block, err = io.ReadAll(os.Stdin); err == nil {
			if src, err = splice(src, block); err == nil {
				err = os.WriteFile(name, src, 0o644)
			}
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// splice replaces each declaration of src that the block has too, with its comments, and appends
// the others. If the block has no imports, it adds and removes those of guideImports as needed.
func splice(src, block []byte) ([]byte, error) {
	block = append([]byte("package p\n"), block...)
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "block", block, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	from := len("package p\n")
	for _, decl := range parsed.Decls {
		to := files.Position(decl.End()).Offset
		text := bytes.TrimSpace(block[from:to])
		from = to
		if src, err = replaceDecl(src, declName(decl), text); err != nil {
			return nil, err
		}
	}
	if len(parsed.Imports) > 0 {
		return format.Source(src)
	}
	used := usedPackages(parsed)
	for name, importPath := range guideImports {
		alias := name
		if importPath == name || strings.HasSuffix(importPath, "/"+name) {
			alias = ""
		}
		if !used[name] {
			src, err = goedit.RemoveImport(src, importPath)
		} else {
			src, err = goedit.AddImport(src, alias, importPath)
		}
		if err != nil {
			return nil, err
		}
	}
	return format.Source(src)
}

// usedPackages returns the names before selectors, without variables of functions.
func usedPackages(file *ast.File) map[string]bool {
	used, variables := map[string]bool{}, map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				used[x.Name] = true
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if x, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
					variables[x.Name] = true
				}
			}
		}
		return true
	})
	maps.DeleteFunc(used, func(name string, _ bool) bool { return variables[name] })
	return used
}

// replaceDecl replaces a declaration and its doc comment, or appends it.
func replaceDecl(src []byte, name string, text []byte) ([]byte, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "file", src, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, decl := range parsed.Decls {
		if declName(decl) != name {
			continue
		}
		start, doc := decl.Pos(), declDoc(decl)
		if doc != nil {
			start = doc.Pos()
		}
		return slices.Concat(src[:files.Position(start).Offset], text, src[files.Position(decl.End()).Offset:]), nil
	}
	return slices.Concat(src, []byte("\n"), text, []byte("\n")), nil
}

func declName(decl ast.Decl) string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			return "method " + d.Name.Name
		}
		return d.Name.Name
	case *ast.GenDecl:
		if d.Tok == token.IMPORT {
			return "import"
		}
		if spec, ok := d.Specs[0].(*ast.TypeSpec); ok {
			return spec.Name.Name
		}
	}
	return ""
}

func declDoc(decl ast.Decl) *ast.CommentGroup {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		return d.Doc
	case *ast.GenDecl:
		return d.Doc
	}
	return nil
}

func TestSplice(t *testing.T) {
	const src = `package p

import (
	"context"
	"fmt"
)

// T is old.
type T struct{ A int }

// F is old.
func F() { fmt.Println() }
`
	const block = `// a marker

// F is new.
func F() error { return errors.New("x") }

func G(context.Context) { client := f(); client.Do() }
`
	contains := func(block string, parts map[string]bool) {
		t.Helper()
		got, err := splice([]byte(src), []byte(block))
		require.NoError(t, err)
		for want, holds := range parts {
			if strings.Contains(string(got), want) != holds {
				t.Errorf("contains %q: %v, want %v:\n%s", want, !holds, holds, got)
			}
		}
	}
	contains(block, map[string]bool{
		"// T is old.": true, "// F is old.": false, "// a marker\n\n// F is new.": true, "func G(": true,
		`"fmt"`: false, `"errors"`: true, `"context"`: true, `client"`: false,
	})
	// The imports of a block replace those of the file, so that a missing one does not compile.
	contains("import (\n\t\"example.com/own\"\n)\n\n"+block, map[string]bool{
		`"example.com/own"`: true, `"fmt"`: false, `"errors"`: false, `"context"`: false, "// F is new.": true,
	})
}
