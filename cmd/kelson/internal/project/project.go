// Package project implements the commands that create and change operator projects, and the parts
// that other commands share: how a project is found, generated, built and run.
package project

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"kelson.dev/toolchain/adopt"
	"kelson.dev/toolchain/compiler"
)

// serverLibrary is the library of custom API servers.
const serverLibrary = "kelson.dev/apiserver"

// Project is the folder of an operator project or of a custom API server.
type Project struct {
	// Dir is the absolute path of the folder.
	Dir string
	// Main is the folder of the main package.
	Main string
	// Tags are the build tags of the main package, separated by commas: those of the Dockerfile or
	// Makefile that builds its image, or else those in the user's GOFLAGS.
	Tags string
	// Args are the arguments of the program's process.
	Args []string
	// Server means that the program is a custom API server: it uses kelson.dev/apiserver.
	Server bool
}

// Role returns what the program is, for logs: "operator" or "server".
func (p *Project) Role() string {
	if p.Server {
		return "server"
	}
	return "operator"
}

// Open opens the project in dir: a Go module, or part of one, with a main package in dir,
// in cmd, or in a folder below cmd. If there are several, it opens the one that the project's
// Dockerfile or Makefile builds for its image, otherwise the first one.
func Open(dir string) (*Project, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open project %s: no such folder", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open project: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open project %s: not a folder", dir)
	}
	candidates := []string{filepath.Join(abs, "cmd"), abs}
	below, err := filepath.Glob(filepath.Join(abs, "cmd", "*"))
	if err != nil {
		return nil, err
	}
	built, err := adopt.Program(abs)
	if err != nil {
		return nil, fmt.Errorf("open project %s: %w", dir, err)
	}
	if built != nil {
		candidates = append([]string{built.Main}, candidates...)
	}
	for _, main := range append(candidates, below...) {
		if _, err := os.Stat(filepath.Join(main, "main.go")); err == nil {
			p := &Project{Dir: abs, Main: main}
			if built != nil && main == built.Main {
				p.Tags = built.Tags
			}
			if p.Tags == "" {
				p.Tags = compiler.Tags(context.Background(), main)
			}
			p.Server = p.MainImports(serverLibrary)
			return p, nil
		}
	}
	if !inModule(abs) {
		return nil, fmt.Errorf("open project %s: %w", dir, ErrNone)
	}
	return nil, fmt.Errorf("open project %s: no main.go in this folder, in cmd or in a folder below cmd: use the folder of a project", dir)
}

// MainImports reports whether the main package imports the package path.
func (p *Project) MainImports(path string) bool {
	files, err := filepath.Glob(filepath.Join(p.Main, "*.go"))
	if err != nil {
		return false
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err == nil && slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
			return i.Path.Value == strconv.Quote(path)
		}) {
			return true
		}
	}
	return false
}

// Build builds the program to the file binary. The error contains the output of the compiler.
func (p *Project) Build(ctx context.Context, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-tags="+p.Tags, "-o", binary, ".")
	cmd.Dir, cmd.Env = p.Main, compiler.WithoutDebugInfo(ctx, p.Main)
	output, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("build %s: %w: install Go, https://go.dev/dl", p.Role(), err)
	case err != nil:
		return fmt.Errorf("build %s: %w\n%s%s", p.Role(), err, bytes.TrimSpace(p.relative(output)), p.cgoHint(ctx, output))
	}
	return nil
}

// position matches the file in a line of the compiler's output.
var position = regexp.MustCompile(`(?m)^[^\s:#][^\s:]*\.go:`)

// relative replaces the files in output of the go command, which are relative to p.Main, by paths
// that are relative to the current folder, so that editors and terminals find them; by absolute
// paths if these are shorter. Files elsewhere, such as in the module cache, keep their absolute
// paths.
func (p *Project) relative(output []byte) []byte {
	current, err := os.Getwd()
	if err != nil {
		return output
	}
	main, err := filepath.Abs(p.Main)
	if err != nil {
		return output
	}
	return position.ReplaceAllFunc(output, func(found []byte) []byte {
		name := strings.TrimSuffix(string(found), ":")
		absolute := filepath.IsAbs(name)
		if !absolute {
			name = filepath.Join(main, filepath.FromSlash(name))
		}
		short, err := filepath.Rel(current, name)
		if err != nil || absolute && !filepath.IsLocal(short) {
			return found
		}
		return []byte(shorter(short, name) + ":")
	})
}

// shorter returns the shorter one of two texts, the first if they have the same length.
func shorter(a, b string) string {
	if len(b) < len(a) {
		return b
	}
	return a
}
