package loader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Config configures Open.
type Config struct {
	// Dir is a directory inside a module. Open searches it and its subdirectories for packages.
	Dir string
	// Paths selects packages as the go command's patterns do: ./api/..., ./api/v1 or
	// example.com/project/api/.... Relative paths begin with a dot and are relative to Dir. All
	// selected packages must be in the module of Dir. Empty means ./....
	Paths []string
	// Cache keeps parsed files for the next Workspace; nil means a new Cache.
	Cache *Cache
}

// Workspace is a snapshot of a module's packages and of the packages that they import.
type Workspace struct {
	ctx     context.Context
	dir     string
	cache   *Cache
	modules *modules
	roots   []*Package
	nested  []string // folders of other modules below the opened directories
	byPath  map[string]*Package
	failed  map[string]error
}

// Open reads the packages that cfg.Paths selects and that have markers or a method Finalize. It
// skips vendor, testdata and node_modules directories, nested modules, and directories that begin
// with a dot or an underscore, unless cfg.Paths names them. The error joins all syntax errors. ctx
// also applies to later calls of the Workspace.
func Open(ctx context.Context, cfg Config) (*Workspace, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if cfg.Cache == nil {
		cfg.Cache = &Cache{}
	}
	mods, err := openModules(dir)
	if err != nil {
		return nil, err
	}
	w := &Workspace{ctx: ctx, dir: dir, cache: cfg.Cache, modules: mods, byPath: map[string]*Package{},
		failed: map[string]error{}}
	patterns, err := mods.patterns(dir, cfg.Paths)
	if err != nil {
		return nil, err
	}
	var errs []error
	seen := map[string]bool{}
	for _, p := range patterns {
		err := p.walk(ctx, w.skip, func(name string) {
			if seen[name] {
				return
			}
			seen[name] = true
			if err := w.openRoot(name); err != nil {
				errs = append(errs, err)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("read packages: %w", err)
		}
	}
	slices.SortStableFunc(w.roots, func(a, b *Package) int { return strings.Compare(a.Dir, b.Dir) })
	return w, errors.Join(errs...)
}

func (w *Workspace) skip(dir, base string) bool {
	if base == "vendor" || base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") ||
		strings.HasPrefix(base, "_") {
		return true
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return false
	}
	if !slices.Contains(w.nested, dir) {
		w.nested = append(w.nested, dir)
	}
	return true
}

// Nested returns the folders of the modules below the opened directories. Open does not read their
// packages.
func (w *Workspace) Nested() []string { return slices.Clone(w.nested) }

// Own reports whether a package belongs to the module itself, not to one that it imports.
func (w *Workspace) Own(p *Package) bool {
	if p.Path != w.modules.path && !strings.HasPrefix(p.Path, w.modules.path+"/") {
		return false
	}
	dir, err := w.Directory(p.Path)
	return err == nil && dir == p.Dir
}

// openRoot parses all files of a directory if one of them has a marker or a method Finalize.
func (w *Workspace) openRoot(dir string) error {
	entries, err := w.cache.scan(dir)
	if err != nil || !slices.ContainsFunc(entries, func(e *cached) bool { return e.marked }) {
		return err
	}
	files, err := parse(entries)
	if err != nil {
		return err
	}
	path, err := w.modules.importPath(dir)
	if err != nil {
		return err
	}
	pkg, err := newPackage(w, path, dir, files)
	if err != nil {
		return err
	}
	w.byPath[path] = pkg
	w.roots = append(w.roots, pkg)
	return nil
}

// Dir returns the absolute path of the opened directory.
func (w *Workspace) Dir() string { return w.dir }

// Packages returns the packages that Open read, sorted by directory.
func (w *Workspace) Packages() []*Package { return slices.Clone(w.roots) }

// Import returns the package with an import path. It reads the package on first use. Of packages
// that Open did not read, it parses only doc.go and files that declare types.
func (w *Workspace) Import(path string) (*Package, error) {
	if p := w.byPath[path]; p != nil {
		return p, nil
	}
	if err := w.failed[path]; err != nil {
		return nil, err
	}
	p, err := w.load(path)
	if err != nil {
		w.failed[path] = err
		return nil, err
	}
	w.byPath[path] = p
	return p, nil
}

func (w *Workspace) load(path string) (*Package, error) {
	dir, err := w.modules.dir(w.ctx, path)
	if err != nil {
		return nil, err
	}
	entries, err := w.cache.scan(dir)
	if err != nil {
		return nil, fmt.Errorf("read package %s: %w", path, err)
	}
	files, err := parse(slices.DeleteFunc(entries, func(e *cached) bool {
		return !e.declares && filepath.Base(e.name) != "doc.go"
	}))
	if err != nil {
		return nil, fmt.Errorf("read package %s: %w", path, err)
	}
	return newPackage(w, path, dir, files)
}

var versionSuffix = regexp.MustCompile(`^v[0-9]+$`)

// suggests reports whether a package with this path is probably named name.
func suggests(path, name string) bool {
	segments := strings.Split(path, "/")
	last := segments[len(segments)-1]
	if last == name {
		return true
	}
	if versionSuffix.MatchString(last) && len(segments) > 1 {
		last = segments[len(segments)-2]
	}
	last, _, _ = strings.Cut(last, ".v")
	last = strings.TrimSuffix(strings.TrimPrefix(last, "go-"), "-go")
	return strings.ReplaceAll(last, "-", "") == name || strings.ReplaceAll(last, "-", "_") == name
}

// ImportPath returns the import path of the package in a directory of the module.
func (w *Workspace) ImportPath(dir string) (string, error) { return w.modules.importPath(dir) }

// Directory returns the directory of a package of the module itself, which may not exist yet.
func (w *Workspace) Directory(importPath string) (string, error) {
	rest, ok := strings.CutPrefix(importPath, w.modules.path)
	if !ok || rest != "" && rest[0] != '/' {
		return "", fmt.Errorf("package %s is not in module %s", importPath, w.modules.path)
	}
	return filepath.Join(w.modules.root, filepath.FromSlash(rest)), nil
}

// Requires reports whether the module requires another module, or is in a workspace with it.
func (w *Workspace) Requires(modulePath string) bool {
	_, required := w.modules.versions[modulePath]
	_, replaced := w.modules.replaced[modulePath]
	return required || replaced
}
