package loader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/build"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// modules maps import paths to directories like the go command, but reads only go.mod, go.work and
// vendor. It needs no module graph, because since Go 1.17 a go.mod lists all modules that its
// packages need. It runs the go command only for packages that it does not find on disk.
type modules struct {
	root     string // the directory of the main go.mod
	path     string // the main module's path
	vendor   string // the vendor directory, if used
	versions map[string]module.Version
	replaced map[string]string // module path → directory, from replace and from go.work's use
	prefixes []string          // every known module path, longest first
	cacheDir string
	goroot   string
	asked    map[string]string
}

// openModules reads the module that contains dir, and the go.work that contains the module.
func openModules(dir string) (*modules, error) {
	root, err := findUp(dir, "go.mod")
	if err != nil {
		return nil, err
	}
	m := &modules{
		root:     root,
		versions: map[string]module.Version{},
		replaced: map[string]string{},
		cacheDir: modCache(),
		goroot:   build.Default.GOROOT,
		asked:    map[string]string{},
	}
	main, err := m.readModule(root)
	if err != nil {
		return nil, err
	}
	m.path = main
	if work := workFile(root); work != "" {
		if err := m.readWork(work); err != nil {
			return nil, err
		}
	} else if _, err := os.Stat(filepath.Join(root, "vendor", "modules.txt")); err == nil {
		m.vendor = filepath.Join(root, "vendor")
	}
	for p := range m.versions {
		m.prefixes = append(m.prefixes, p)
	}
	for p := range m.replaced {
		if _, both := m.versions[p]; !both {
			m.prefixes = append(m.prefixes, p)
		}
	}
	sort.Slice(m.prefixes, func(i, j int) bool { return len(m.prefixes[i]) > len(m.prefixes[j]) })
	return m, nil
}

func findUp(dir, name string) (string, error) {
	for d := dir; ; {
		if st, err := os.Stat(filepath.Join(d, name)); err == nil && !st.IsDir() {
			return d, nil
		}
		parent := filepath.Dir(d)
		if parent == d {
			return "", fmt.Errorf("%s: %w", dir, ErrNoModule)
		}
		d = parent
	}
}

// workFile returns the go.work to use, from GOWORK or a parent directory, or "".
func workFile(root string) string {
	switch env := os.Getenv("GOWORK"); env {
	case "":
		if dir, err := findUp(root, "go.work"); err == nil {
			return filepath.Join(dir, "go.work")
		}
		return ""
	case "off":
		return ""
	default:
		return env
	}
}

func modCache() string {
	if dir := os.Getenv("GOMODCACHE"); dir != "" {
		return dir
	}
	return filepath.Join(filepath.SplitList(build.Default.GOPATH)[0], "pkg", "mod")
}

// readModule adds one module of the workspace. Of two versions of a requirement it uses the higher,
// as in minimal version selection.
func (m *modules) readModule(dir string) (string, error) {
	name := filepath.Join(dir, "go.mod")
	data, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("read module: %w", err)
	}
	f, err := modfile.Parse(name, data, nil)
	if err != nil {
		return "", fmt.Errorf("read module: %w", err)
	}
	if f.Module == nil {
		return "", fmt.Errorf("read module: %s: no module line", name)
	}
	m.replaced[f.Module.Mod.Path] = dir
	for _, r := range f.Require {
		if have, ok := m.versions[r.Mod.Path]; !ok || semver.Compare(r.Mod.Version, have.Version) > 0 {
			m.versions[r.Mod.Path] = r.Mod
		}
	}
	m.replace(dir, f.Replace)
	return f.Module.Mod.Path, nil
}

func (m *modules) readWork(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read workspace: %w", err)
	}
	f, err := modfile.ParseWork(name, data, nil)
	if err != nil {
		return fmt.Errorf("read workspace: %w", err)
	}
	dir := filepath.Dir(name)
	used := make([]string, 0, len(f.Use))
	member := false
	for _, u := range f.Use {
		d := u.Path
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		used = append(used, d)
		member = member || d == m.root
	}
	if !member {
		return nil // go.work does not use this module
	}
	for _, d := range used {
		if d == m.root {
			continue
		}
		if _, err := m.readModule(d); err != nil {
			return err
		}
	}
	m.replace(dir, f.Replace)
	for _, d := range used { // use takes precedence over replace
		if data, err := os.ReadFile(filepath.Join(d, "go.mod")); err == nil {
			m.replaced[modfile.ModulePath(data)] = d
		}
	}
	return nil
}

func (m *modules) replace(dir string, rs []*modfile.Replace) {
	for _, r := range rs {
		if r.Old.Version != "" && m.versions[r.Old.Path].Version != r.Old.Version {
			continue
		}
		if r.New.Version == "" {
			to := r.New.Path
			if !filepath.IsAbs(to) {
				to = filepath.Join(dir, to)
			}
			m.replaced[r.Old.Path] = to
			continue
		}
		m.versions[r.Old.Path] = r.New
	}
}

// dir returns the directory of a package.
func (m *modules) dir(ctx context.Context, importPath string) (string, error) {
	if m.vendor != "" && importPath != m.path && !strings.HasPrefix(importPath, m.path+"/") {
		if d := filepath.Join(m.vendor, filepath.FromSlash(importPath)); isDir(d) {
			return d, nil
		}
	}
	for _, prefix := range m.prefixes {
		if importPath != prefix && !strings.HasPrefix(importPath, prefix+"/") {
			continue
		}
		root, ok := m.replaced[prefix]
		if !ok {
			v := m.versions[prefix]
			p, err1 := module.EscapePath(v.Path)
			ver, err2 := module.EscapeVersion(v.Version)
			if err1 != nil || err2 != nil {
				continue
			}
			root = filepath.Join(m.cacheDir, filepath.FromSlash(p)+"@"+ver)
		}
		if d := filepath.Join(root, filepath.FromSlash(strings.TrimPrefix(importPath, prefix))); isDir(d) {
			return d, nil
		}
	}
	if first, _, _ := strings.Cut(importPath, "/"); !strings.Contains(first, ".") {
		if d := filepath.Join(m.goroot, "src", filepath.FromSlash(importPath)); m.goroot != "" && isDir(d) {
			return d, nil
		}
	}
	return m.ask(ctx, importPath)
}

// ask runs the go command to find, and perhaps download, a package. The caller tries everything
// else first, because this is slow.
func (m *modules) ask(ctx context.Context, importPath string) (string, error) {
	if d, ok := m.asked[importPath]; ok {
		return d, nil
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-find", "-e", "-json=Dir,Error", "--", importPath)
	cmd.Dir = m.root
	out, err := cmd.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) && len(failed.Stderr) > 0 {
			err = errors.New(string(bytes.TrimSpace(failed.Stderr))) // more than the exit status
		}
		return "", fmt.Errorf("find package %s: go list: %w", importPath, err)
	}
	var found struct {
		Dir   string
		Error *struct{ Err string }
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return "", fmt.Errorf("find package %s: %w", importPath, err)
	}
	if found.Dir == "" {
		msg := "not found"
		if found.Error != nil {
			msg = found.Error.Err
		}
		return "", fmt.Errorf("find package %s: %s", importPath, msg)
	}
	m.asked[importPath] = found.Dir
	return found.Dir, nil
}

// importPath returns the import path of a directory in the main module.
func (m *modules) importPath(dir string) (string, error) {
	rel, err := filepath.Rel(m.root, dir)
	if err != nil {
		return "", err
	}
	return path.Join(m.path, filepath.ToSlash(rel)), nil
}

func isDir(d string) bool {
	st, err := os.Stat(d)
	return err == nil && st.IsDir()
}
