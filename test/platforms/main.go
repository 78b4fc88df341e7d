// Platforms reports errors with which packages and their tests do not compile on other systems. It
// checks types from source, which takes seconds. go vet also checks types, but first compiles
// Kubernetes for each system.
//
//	go run ./test/platforms darwin/arm64,windows/amd64 ./cmd/... ./apiserver/...
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: platforms SYSTEM/ARCHITECTURE,… PACKAGES…")
		os.Exit(2)
	}
	failed := false
	for platform := range strings.SplitSeq(os.Args[1], ",") {
		problems, err := check(platform, os.Args[2:])
		for _, p := range problems {
			fmt.Printf("%s: %s\n", platform, p)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "check packages for %s: %v\n", platform, err)
		}
		failed = failed || err != nil || len(problems) > 0
	}
	if failed {
		os.Exit(1)
	}
}

// check returns the errors of packages, their tests and all dependencies on a platform.
func check(platform string, patterns []string) ([]string, error) {
	system, architecture, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, fmt.Errorf("%q is not of the form SYSTEM/ARCHITECTURE", platform)
	}
	found, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes | packages.NeedModule,
		Env:       append(os.Environ(), "GOOS="+system, "GOARCH="+architecture, "CGO_ENABLED=0"),
		Tests:     true,
		ParseFile: parse,
	}, patterns...)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no packages match %s", strings.Join(patterns, " "))
	}
	var problems []string
	reported := map[string]bool{} // a package and its test variant have the same errors
	packages.Visit(found, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			text := e.Error()
			if reported[text] || isDownloaded(e.Pos) && strings.HasSuffix(e.Msg, "and not used") {
				continue // parse has removed the uses of such imports
			}
			reported[text] = true
			problems = append(problems, text)
		}
	})
	return problems, nil
}

// parse replaces the bodies of dependencies' functions, to save time and memory.
func parse(files *token.FileSet, name string, text []byte) (*ast.File, error) {
	f, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if f == nil || !isDownloaded(name) {
		return f, err
	}
	for _, d := range f.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			call := &ast.CallExpr{Fun: ast.NewIdent("panic"), Args: []ast.Expr{ast.NewIdent("nil")}}
			f.Body = &ast.BlockStmt{Lbrace: f.Body.Lbrace, List: []ast.Stmt{&ast.ExprStmt{X: call}},
				Rbrace: f.Body.Rbrace}
		}
	}
	return f, err
}

// isDownloaded reports whether a file is in the module cache.
func isDownloaded(name string) bool { return strings.Contains(filepath.ToSlash(name), "/pkg/mod/") }
