// Package project is an operator project as a folder: where its main package and its manifests are, how it is built, run and applied.
package project

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest/manifest"
)

// Project is an operator's folder.
type Project struct {
	// Dir is the absolute path of the folder.
	Dir string
	// Main is the folder of the operator's main package.
	Main string
}

// Open finds an operator project in a folder: a Go module, or part of one, with a main package in it, in cmd or in a folder below cmd.
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
	for _, main := range append(candidates, below...) {
		if _, err := os.Stat(filepath.Join(main, "main.go")); err == nil {
			return &Project{Dir: abs, Main: main}, nil
		}
	}
	return nil, fmt.Errorf("open project %s: no main.go in it, in cmd or in a folder below cmd: is it an operator project?", dir)
}

// Build builds the operator to a file. The error holds what the compiler said.
func (p *Project) Build(ctx context.Context, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, ".")
	cmd.Dir = p.Main
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build operator: %w\n%s", err, bytes.TrimSpace(output))
	}
	return nil
}

// Apply applies, server-side, every manifest in a folder of the project, in the order of the files' names; a folder that is not there
// holds none. What the server refuses is named by file.
func (p *Project) Apply(ctx context.Context, c client.Client, folder string) error {
	objects, err := p.manifests(folder)
	if err != nil {
		return err
	}
	for _, m := range objects {
		if m.Object.GetNamespace() == "" {
			if mapping, err := c.Mapper().RESTMapping(m.Object.GroupVersionKind().GroupKind(), m.Object.GroupVersionKind().Version); err == nil &&
				mapping.Scope.Name() == "namespace" {
				m.Object.SetNamespace("default")
			}
		}
		if err := c.Apply(ctx, m.Object); err != nil {
			return fmt.Errorf("apply %s: %w", m.File, err)
		}
	}
	return nil
}

// manifests reads the objects in a folder of the project.
func (p *Project) manifests(folder string) ([]manifest.Manifest, error) {
	all, err := manifest.Read(filepath.Join(p.Dir, folder))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, manifest.ErrNone) {
		return nil, nil
	}
	return all, err
}
