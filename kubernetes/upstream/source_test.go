package upstream_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kelson.dev/internal/require"
)

var update = flag.Bool("update", false, "accept the present state of Kubernetes in originals.txt and gates.txt")

// modules returns the folders of Kubernetes' modules in the module cache, by path.
var modules = sync.OnceValues(func() (map[string]string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Path}} {{.Dir}}", "k8s.io/kubernetes", "k8s.io/apiserver",
		"k8s.io/apiextensions-apiserver", "k8s.io/kube-aggregator", "k8s.io/apimachinery", "k8s.io/client-go",
		"k8s.io/component-base",
		"k8s.io/component-helpers", "k8s.io/cloud-provider", "k8s.io/controller-manager", "k8s.io/kube-openapi",
		"k8s.io/pod-security-admission").Output()
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		dirs[path] = dir
	}
	return dirs, nil
})

// location returns the file name of an import path, or of a file below one.
func location(t testing.TB, path string) string {
	t.Helper()
	dirs, err := modules()
	require.NoError(t, err)
	parts := strings.SplitN(path, "/", 3)
	dir := dirs[strings.Join(parts[:2], "/")]
	if dir == "" {
		t.Fatalf("%s: unknown module, or not in the module cache: run go mod download", path)
	}
	return filepath.Join(dir, filepath.FromSlash(strings.Join(parts[2:], "/")))
}

// parsed returns the syntax of a file, or of all files of a package that are not tests.
func parsed(t testing.TB, path string) []*ast.File {
	t.Helper()
	names := []string{location(t, path)}
	if !strings.HasSuffix(path, ".go") {
		var err error
		if names, err = filepath.Glob(filepath.Join(names[0], "*.go")); err != nil || len(names) == 0 {
			t.Errorf("%s: no such package in this version of Kubernetes (%v)", path, err)
		}
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if _, err := os.Stat(name); err != nil {
			t.Errorf("%s: no such file in this version of Kubernetes", path)
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	return files
}

// declared caches the declarations of packages and files by path. The tests run one after another.
var declared = map[string]map[string]ast.Node{}

// declarationsOf returns the declarations of a package or file; see declarations.
func declarationsOf(t testing.TB, path string) map[string]ast.Node {
	t.Helper()
	if declared[path] == nil {
		declared[path] = declarations(parsed(t, path))
	}
	return declared[path]
}

// declarations returns the declarations of files by name: functions, methods as Type.Method, types,
// and the names of constants and variables. Imports are not included.
func declarations(files []*ast.File) map[string]ast.Node {
	all := map[string]ast.Node{}
	for _, file := range files {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = receiver(d.Recv.List[0].Type) + "." + name
				}
				for all[name] != nil { // functions named init or _, and variants for systems
					name += "'"
				}
				all[name] = d
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						all[s.Name.Name] = s
					case *ast.ValueSpec:
						for _, id := range s.Names {
							if id.Name != "_" {
								all[id.Name] = s
							}
						}
					}
				}
			}
		}
	}
	return all
}

// receiver returns the name of the type of a receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// hash returns a short hash of a declaration's formatted source without comments.
func hash(t testing.TB, node ast.Node) string {
	t.Helper()
	var b bytes.Buffer
	// Without the positions of the file, the printer keeps neither comments nor empty lines.
	require.NoError(t, printer.Fprint(&b, token.NewFileSet(), node))
	sum := sha256.Sum256([]byte(strings.Join(strings.Fields(b.String()), " ")))
	return hex.EncodeToString(sum[:6])
}

// rows returns the fields of the lines of a table in this folder. Lines that begin with # are
// comments.
func rows(t testing.TB, name string) [][]string {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	var all [][]string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, strings.Fields(line))
		}
	}
	return all
}
