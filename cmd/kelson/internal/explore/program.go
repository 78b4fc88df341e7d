package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"

	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/toolchain/scaffold"
)

const (
	library  = "kelson.dev/operator"
	testName = "TestKelsonExplore"
)

// program is the test in the operator's main package. Each process of the operator calls main, in
// which a call of operator.Main is replaced by one of kelsonExploreMain.
const program = `package main

import (
	"testing"

	"kelson.dev/lab/explore"
	"kelson.dev/operator"
)

var kelsonExploreParts []operator.Part

func kelsonExploreMain(parts ...operator.Part) { kelsonExploreParts = parts }

func ` + testName + `(t *testing.T) {
	s, err := explore.Project(%q, func() []operator.Part {
		kelsonExploreParts = nil
		main()
		return kelsonExploreParts
	})
	explore.Drive(t, s, err)
}
`

// writeProgram writes the test and the changed main to the folder temp, and returns the file that
// describes the overlay.
func writeProgram(p *project.Project, temp string) (overlay string, err error) {
	files, err := filepath.Glob(filepath.Join(p.Main, "*.go"))
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		changed, err := withoutMain(name, source)
		if err != nil {
			return "", err
		}
		if changed != nil {
			to := filepath.Join(temp, filepath.Base(name))
			if err := os.WriteFile(to, changed, 0o600); err != nil {
				return "", err
			}
			replace[name] = to
		}
	}
	if len(replace) == 0 {
		return "", fmt.Errorf("no file of %s calls operator.Main of %s, so the operator's parts are not known; write a test with explore.Run instead", p.Main, library)
	}
	test := filepath.Join(temp, "explore_test.go")
	if err := os.WriteFile(test, fmt.Appendf(nil, program, p.Dir), 0o600); err != nil {
		return "", err
	}
	replace[filepath.Join(p.Main, "zz_kelson_explore_test.go")] = test
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(temp, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

// withoutMain replaces operator.Main in a Go file by kelsonExploreMain. It returns nil if the file
// does not use it.
func withoutMain(name string, source []byte) ([]byte, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	local := localName(file, library)
	if local == "" {
		return nil, nil
	}
	var b strings.Builder
	done := 0
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok || selector.Sel.Name != "Main" {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok && x.Name == local {
			b.Write(source[done:files.Position(selector.Pos()).Offset])
			b.WriteString("kelsonExploreMain")
			done = files.Position(selector.End()).Offset
		}
		return true
	})
	if done == 0 {
		return nil, nil
	}
	b.Write(source[done:])
	fmt.Fprintf(&b, "\nvar _ = %s.Main // keeps the import in use\n", local)
	return []byte(b.String()), nil
}

// localName returns the name by which a file uses an imported package, or "".
func localName(file *ast.File, imported string) string {
	for _, spec := range file.Imports {
		if spec.Path.Value != strconv.Quote(imported) {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(imported)
	}
	return ""
}

// workspace returns the environment in which the go command finds kelson.dev/lab/explore from the
// project. The project itself does not require it: it has many more dependencies than the library.
func workspace(ctx context.Context, p *project.Project, temp string) ([]string, error) {
	run := func(env []string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Env = p.Dir, append(os.Environ(), env...)
		output, err := cmd.Output()
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("go %s: %w\n%s", args[0], err, failed.Stderr)
		}
		return strings.TrimSpace(string(output)), err
	}
	if dir, err := run(nil, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "kelson.dev"); err == nil && dir != "" {
		return nil, nil
	}
	mod, err := run([]string{"GOWORK=off"}, "env", "GOMOD")
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(mod)
	if err != nil {
		return nil, err
	}
	checkout, err := checkoutOf(mod, data)
	if err != nil {
		return nil, err
	}
	work := filepath.Join(temp, "go.work")
	env := []string{"GOWORK=" + work}
	if _, err := run(env, "work", "init", filepath.Dir(mod), checkout, filepath.Join(checkout, "apiserver"), filepath.Join(checkout, "operator")); err != nil {
		return nil, err
	}
	sums, err := os.ReadFile(filepath.Join(checkout, "go.work.sum"))
	if err != nil {
		return nil, err
	}
	return env, os.WriteFile(filepath.Join(temp, "go.work.sum"), sums, 0o600)
}

// checkoutOf returns the folder of Kelson's source: that in the replace directive of a go.mod, or
// that of this program.
func checkoutOf(name string, mod []byte) (string, error) {
	f, err := modfile.Parse(name, mod, nil)
	if err != nil {
		return "", err
	}
	for _, r := range f.Replace {
		if r.Old.Path == library && r.New.Version == "" {
			dir := r.New.Path
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(filepath.Dir(name), dir)
			}
			return scaffold.Checkout(filepath.Dir(dir))
		}
	}
	return scaffold.Checkout("")
}
