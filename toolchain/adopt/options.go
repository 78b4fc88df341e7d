package adopt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"kelson.dev/toolchain"
	"kelson.dev/toolchain/walk"
)

// Options returns the options of Generate for the call: one for each module with packages that its
// paths select, since a pattern of folders such as ./... includes the modules below. The error
// names the paths that Generate cannot read; the options are those of the other paths.
func (c Call) Options() ([]toolchain.Options, error) {
	a, err := c.Arguments()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Source, err)
	}
	for name, set := range a.Settings {
		set.Output = c.absolute(set.Output)
		if set.HeaderFile != "-" {
			set.HeaderFile = c.absolute(set.HeaderFile)
		}
		a.Settings[name] = set
	}
	if len(a.Paths) == 0 {
		return nil, fmt.Errorf("%s: controller-gen needs paths=", c.Source)
	}
	var modules []string
	var errs []error
	paths := map[string][]string{}
	for _, p := range a.Paths {
		found, err := c.modules(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Source, err))
			continue
		}
		for _, m := range found {
			if !slices.Contains(modules, m.dir) {
				modules = append(modules, m.dir)
			}
			paths[m.dir] = append(paths[m.dir], m.pattern)
		}
	}
	var all []toolchain.Options
	for _, dir := range modules {
		opts := toolchain.Options{Dir: dir, Lenient: true, KeepEqual: true}
		a.Apply(&opts)
		opts.Paths = paths[dir]
		opts.Descriptions.Size = -1
		all = append(all, opts)
	}
	return all, errors.Join(errs...)
}

// absolute returns a path that is relative to the call's folder as an absolute one.
func (c Call) absolute(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(c.Dir, filepath.FromSlash(name))
}

// selection is the part of a pattern that selects packages of one module.
type selection struct{ dir, pattern string }

// modules returns the modules of a pattern. A pattern that is an import path selects packages of
// the module of the call's folder.
func (c Call) modules(pattern string) ([]selection, error) {
	if !filepath.IsAbs(pattern) && pattern != "." && pattern != ".." && !strings.HasPrefix(pattern, "./") &&
		!strings.HasPrefix(pattern, "../") {
		root := moduleOf(c.Dir)
		if root == "" {
			return nil, fmt.Errorf("path %s: the folder %s is in no Go module", pattern, c.Dir)
		}
		data, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if err != nil {
			return nil, err
		}
		own := modfile.ModulePath(data)
		if rest, ok := strings.CutPrefix(pattern, own); !ok ||
			rest != "" && rest[0] != '/' && !strings.HasPrefix(rest, "...") {
			return nil, fmt.Errorf("path %s: the package is not in module %s", pattern, own)
		}
		return []selection{{c.Dir, pattern}}, nil
	}
	full := c.absolute(pattern)
	if strings.HasSuffix(pattern, "/") {
		full = filepath.Clean(full)
	}
	base, _, wild := strings.Cut(full, "...")
	if wild && !strings.HasSuffix(base, "/") {
		base = filepath.Dir(base)
	}
	base = filepath.Clean(base)
	if info, err := os.Stat(base); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("path %s: no such folder", pattern)
	}
	root := moduleOf(base)
	if root == "" {
		return nil, fmt.Errorf("path %s: the folder is in no Go module", pattern)
	}
	dir := root
	if root == moduleOf(c.Dir) {
		dir = c.Dir // for messages and default headers
	}
	all := []selection{{dir, full}}
	if !strings.HasSuffix(full, "/...") {
		return all, nil
	}
	err := walk.Dir(base, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || name == base {
			return err
		}
		if b := d.Name(); b == "vendor" || b == "testdata" || b == "node_modules" || b[0] == '.' || b[0] == '_' {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
			all = append(all, selection{name, name + "/..."})
		}
		return nil
	})
	return all, err
}

// moduleOf returns the folder of the go.mod of a folder, or "".
func moduleOf(dir string) string {
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}
