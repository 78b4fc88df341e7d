package kelson_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

//go:generate go test -run ^TestExportedAPI$ . -update-api

var updateAPI = flag.Bool("update-api", false, "write the exported API of the modules to their api.txt")

// TestExportedAPI compares what the modules export with their files api.txt, so that reviewers see
// every change of the API. make generate updates the files.
func TestExportedAPI(t *testing.T) {
	for _, module := range []string{"operator", "apiserver"} {
		t.Run(module, func(t *testing.T) {
			lines, err := exportedAPI(module)
			require.NoError(t, err)
			if len(lines) < 100 {
				t.Fatalf("only %d lines: is this the root of the repository?", len(lines))
			}
			file := filepath.Join(module, "api.txt")
			if *updateAPI {
				require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
				return
			}
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			want := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
			removed, added := difference(want, lines), difference(lines, want)
			for _, line := range removed {
				t.Errorf("removed or changed, which may break users: %s", line)
			}
			for _, line := range added {
				t.Errorf("added: %s", line)
			}
			if len(removed)+len(added) > 0 {
				t.Errorf("if the changes are intended, run make generate, or go generate . in the root")
			}
		})
	}
}

// TestAPILines shows the format, and that a change of a signature changes a line.
func TestAPILines(t *testing.T) {
	dir := t.TempDir()
	source := `package p

const A, b = 1, 2
var V map[string]int
type S[T any] struct { F, G int; h int; *E ` + "`json:\"e\"`" + ` }
type E struct{}
type I interface { M(x int) error; m() }
type F func(ctx int) string
type hidden struct{}
func (s *S[T]) Do(a, b int) (ok bool, err error) { return }
func (hidden) Do() {}
func New(
	cfg struct{ A int },
) *S[int] {
	return nil
}
func local() {}
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "p.go"), []byte(source), 0o600))
	got, err := exportedAPI(dir)
	require.NoError(t, err)
	want := []string{
		"., const A", "., func (s *S[T]) Do(a, b int) (ok bool, err error)", "., func New(cfg struct{ A int }) *S[int]",
		"., type E struct",
		"., type F func(ctx int) string", "., type I interface", "., type I interface, M(x int) error",
		"., type I interface, with unexported methods",
		"., type S[T any] struct", "., type S[T any] struct, *E", "., type S[T any] struct, F int",
		"., type S[T any] struct, G int", "., var V map[string]int",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func difference(all, without []string) (rest []string) {
	has := map[string]bool{}
	for _, line := range without {
		has[line] = true
	}
	for _, line := range all {
		if !has[line] {
			rest = append(rest, line)
		}
	}
	return rest
}

// exportedAPI returns a line for each exported declaration, field and method of a module's packages
// that others can import, sorted. Files for other platforms count too.
func exportedAPI(module string) ([]string, error) {
	lines := map[string]bool{}
	err := filepath.WalkDir(module, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if name != module && (err == nil || d.Name() == "internal" || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil || file.Name.Name == "main" {
			return err
		}
		pkg, err := filepath.Rel(module, filepath.Dir(name))
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			for _, line := range apiOf(set, decl) {
				lines[filepath.ToSlash(pkg)+", "+line] = true
			}
		}
		return nil
	})
	return slices.Sorted(maps.Keys(lines)), err
}

// apiOf returns the lines of one declaration.
func apiOf(set *token.FileSet, decl ast.Decl) (lines []string) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Name.IsExported() && (decl.Recv == nil || ast.IsExported(receiver(decl.Recv.List[0].Type))) {
			decl.Body, decl.Doc = nil, nil
			lines = append(lines, text(set, decl))
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() {
						lines = append(lines,
							strings.TrimSpace(fmt.Sprintf("%s %s %s", decl.Tok, name.Name, text(set, spec.Type))))
					}
				}
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					lines = append(lines, apiOfType(set, spec)...)
				}
			}
		}
	}
	return lines
}

func apiOfType(set *token.FileSet, spec *ast.TypeSpec) []string {
	head := "type " + spec.Name.Name
	if spec.TypeParams != nil {
		var all []string
		for _, p := range spec.TypeParams.List {
			for _, name := range p.Names {
				all = append(all, name.Name+" "+text(set, p.Type))
			}
		}
		head += "[" + strings.Join(all, ", ") + "]"
	}
	if spec.Assign.IsValid() {
		head += " ="
	}
	switch t := spec.Type.(type) {
	case *ast.StructType:
		head += " struct"
		lines := []string{head}
		for _, field := range t.Fields.List {
			if len(field.Names) == 0 && ast.IsExported(receiver(field.Type)) {
				lines = append(lines, head+", "+text(set, field.Type))
			}
			for _, name := range field.Names {
				if name.IsExported() {
					lines = append(lines, head+", "+name.Name+" "+text(set, field.Type))
				}
			}
		}
		return lines
	case *ast.InterfaceType:
		head += " interface"
		lines := []string{head}
		for _, method := range t.Methods.List {
			switch {
			case len(method.Names) == 0:
				lines = append(lines, head+", "+text(set, method.Type))
			case method.Names[0].IsExported():
				lines = append(lines, head+", "+method.Names[0].Name+strings.TrimPrefix(text(set, method.Type), "func"))
			default:
				lines = append(lines, head+", with unexported methods")
			}
		}
		return lines
	}
	return []string{head + " " + text(set, spec.Type)}
}

// receiver returns the name of a receiver's or an embedded field's type.
func receiver(expr ast.Expr) string {
	switch t := expr.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.SelectorExpr:
		return t.Sel.Name
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// text prints a node on one line, without comments.
func text(set *token.FileSet, node ast.Node) string {
	if node == nil || node == ast.Expr(nil) {
		return ""
	}
	var out bytes.Buffer
	if err := printer.Fprint(&out, set, node); err != nil {
		return err.Error()
	}
	line := strings.Join(strings.Fields(out.String()), " ")
	// Parameters may stand on several lines.
	return strings.NewReplacer("( ", "(", ", )", ")").Replace(line)
}
