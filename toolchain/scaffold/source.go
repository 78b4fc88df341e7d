package scaffold

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
)

// Source is the origin of Kelson's modules in a project: a checkout, to which replace directives
// point, or a published version. Exactly one field is set.
type Source struct {
	Checkout string // folder with Kelson's source, absolute
	Version  string // of all modules of Kelson, such as v0.1.0
}

// SourceOf returns the source for the projects of this program: the given checkout. Without a given
// checkout, it returns the published version of this program or, if this program is not published,
// the folder that Checkout returns.
func SourceOf(given, version string) (Source, error) {
	if given != "" {
		abs, err := filepath.Abs(given)
		if err == nil && !isCheckout(abs) {
			err = fmt.Errorf("--kelson %s: not a checkout of Kelson", given)
		}
		return Source{Checkout: abs}, err
	}
	if version != "" {
		return Source{Version: version}, nil
	}
	checkout, err := Checkout()
	return Source{Checkout: checkout}, err
}

// Module is the source of one module.
type Module struct {
	Path, Version string
	// Dir is the folder of the module's files. For a published version it is in the module cache.
	Dir string
	// Sum and GoModSum are the checksums of a published version, for go.sum.
	Sum, GoModSum string
}

// sum returns the module's lines of go.sum; a checkout has none.
func (m Module) sum() []byte {
	if m.Sum == "" {
		return nil
	}
	return fmt.Appendf(nil, "%s %s %s\n%[1]s %[2]s/go.mod %[4]s\n", m.Path, m.Version, m.Sum, m.GoModSum)
}

// Find returns modules of Kelson, in the order of their paths in the arguments. The go command
// downloads published versions from the proxies in GOPROXY.
func (s Source) Find(paths ...string) ([]Module, error) {
	var found []Module
	if s.Version == "" {
		for _, module := range paths {
			dir := s.Checkout
			if module != rootModule {
				dir = filepath.Join(dir, path.Base(module))
			}
			found = append(found, Module{Path: module, Dir: dir})
		}
		return found, nil
	}
	args := []string{"mod", "download", "-json"}
	for _, module := range paths {
		args = append(args, module+"@"+s.Version)
	}
	temp, err := os.MkdirTemp("", "kelson-modules-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	cmd := exec.Command("go", args...)
	// Run outside of the current folder, so that its go.mod has no effect.
	cmd.Dir, cmd.Env = temp, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	output, failed := cmd.Output()
	for decoder := json.NewDecoder(bytes.NewReader(output)); decoder.More(); {
		var m struct {
			Module
			Error string
		}
		if err := decoder.Decode(&m); err != nil {
			return nil, fmt.Errorf("go mod download: %w", err)
		}
		if m.Error != "" {
			return nil, fmt.Errorf("download %s: %s", m.Path, m.Error)
		}
		found = append(found, m.Module)
	}
	if failed != nil || len(found) != len(paths) {
		var exit *exec.ExitError
		if errors.As(failed, &exit) {
			failed = errors.New(string(bytes.TrimSpace(exit.Stderr)))
		}
		return nil, fmt.Errorf("download Kelson's modules %s: %w", s.Version, failed)
	}
	return found, nil
}
