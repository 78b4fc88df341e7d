package project

import (
	"errors"
	"os"
	"path/filepath"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/scaffold"
)

// ErrNone means that a folder has no project.
var ErrNone = errors.New("no project in this folder: run the command in the folder of a project, name that folder, or create a project with kelson init")

// Explain returns ErrNone for errors that have the reason that a folder has no project, and other
// errors unchanged. All commands for projects then say the same.
func Explain(err error) error {
	switch {
	case errors.Is(err, ErrNone), errors.Is(err, loader.ErrNoModule):
		return ErrNone
	case errors.Is(err, scaffold.ErrNoProject) && !inModule("."):
		return ErrNone // in a Go module, the missing file is the reason
	}
	return err
}

// Check returns an error if dir has no project: neither a Go module nor manifests.
func Check(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "config")); err == nil || inModule(dir) {
		return nil
	}
	return ErrNone
}

// inModule reports whether dir or a folder above it has a go.mod.
func inModule(dir string) bool {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return false
		}
		dir = parent
	}
}
