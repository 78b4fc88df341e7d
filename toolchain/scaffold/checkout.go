package scaffold

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

const (
	rootModule = "kelson.dev"
	library    = "kelson.dev/operator"
	shared     = "kelson.dev/internal" // required by the libraries
)

// direct lists the modules that operators import, and directServer those that custom API servers
// import.
var (
	direct       = []string{library, "k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go"}
	directServer = []string{serverLibrary, "k8s.io/apimachinery", "sigs.k8s.io/randfill"}
)

// Checkout returns the folder of the Kelson source that this program was built from: the folder
// that the compiler recorded, or the folder that contains the program.
func Checkout() (string, error) {
	var starts []string
	if _, source, _, ok := runtime.Caller(0); ok && filepath.IsAbs(source) {
		starts = append(starts, filepath.Dir(source))
	}
	if program, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(program))
	}
	for _, dir := range starts {
		for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			if isCheckout(dir) {
				return dir, nil
			}
		}
	}
	return "", errors.New("the source of Kelson is not found, and this kelson is not a release: pass the folder of the source with --kelson DIR")
}

func isCheckout(dir string) bool {
	root, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || modfile.ModulePath(root) != "kelson.dev" {
		return false
	}
	lib, err := os.ReadFile(filepath.Join(dir, "operator", "go.mod"))
	return err == nil && modfile.ModulePath(lib) == library
}

// modules has the requirements and checksums that a module needs to require a library of Kelson.
type modules struct {
	source    Source
	libraries []string // the modules of Kelson that it needs, as paths
	direct    []string
	mod       *modfile.File
	sum       []byte
}

// readModules reads the requirements of the operator library or, for custom API servers, of
// kelson.dev/apiserver.
func readModules(source Source, server bool) (*modules, error) {
	m := &modules{source: source, libraries: []string{library, shared}, direct: direct}
	if server {
		m.libraries, m.direct = []string{serverLibrary, shared}, directServer
	}
	found, err := source.Find(m.libraries...)
	if err != nil {
		return nil, err
	}
	dir := found[0].Dir
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	if m.mod, err = modfile.Parse(filepath.Join(dir, "go.mod"), data, nil); err != nil {
		return nil, err
	}
	if m.sum, err = os.ReadFile(filepath.Join(dir, "go.sum")); err != nil {
		return nil, err
	}
	for _, module := range found {
		m.sum = append(m.sum, module.sum()...)
	}
	return m, nil
}

func (m *modules) goVersion() string { return m.mod.Go.Version }

// apply updates go.mod and go.sum of a project to the requirements of the library. It keeps
// everything else in them.
func (m *modules) apply(mod, sum []byte, repo string) (newMod, newSum []byte, err error) {
	if mod == nil {
		mod = []byte("module " + repo + "\n\ngo " + m.goVersion() + "\n")
	}
	f, err := modfile.Parse("go.mod", mod, nil)
	if err != nil {
		return nil, nil, err
	}
	if f.Go == nil || semver.Compare("v"+f.Go.Version, "v"+m.goVersion()) < 0 {
		if err := f.AddGoStmt(m.goVersion()); err != nil {
			return nil, nil, err
		}
	}
	have := map[string]string{}
	for _, r := range f.Require {
		have[r.Mod.Path] = r.Mod.Version
	}
	need := func(module, version string) {
		old, ok := have[module]
		if !ok {
			f.AddNewRequire(module, version, !slices.Contains(m.direct, module))
		} else if semver.Compare(old, version) < 0 {
			_ = f.AddRequire(module, version)
		}
	}
	for _, library := range m.libraries {
		need(library, cmp.Or(m.source.Version, "v0.0.0"))
	}
	for _, r := range m.mod.Require {
		need(r.Mod.Path, r.Mod.Version)
	}
	f.SetRequireSeparateIndirect(f.Require)
	if err := m.replace(f); err != nil {
		return nil, nil, err
	}
	f.Cleanup()
	if newMod, err = f.Format(); err != nil {
		return nil, nil, err
	}
	lines := slices.Collect(strings.Lines(string(sum)))
	for line := range strings.Lines(string(m.sum)) {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return newMod, []byte(strings.Join(slices.Compact(lines), "")), nil
}

// replace writes the replace directives for a checkout, or removes them for a published version.
func (m *modules) replace(f *modfile.File) error {
	for _, library := range m.libraries {
		var err error
		if m.source.Version != "" {
			err = f.DropReplace(library, "")
		} else {
			err = f.AddReplace(library, "", filepath.Join(m.source.Checkout, path.Base(library)), "")
		}
		if err != nil {
			return err
		}
	}
	for _, r := range f.Replace {
		if r.Old.Path == m.libraries[0] && len(r.Syntax.Before) == 0 {
			r.Syntax.Before = []modfile.Comment{
				{Token: "// A development build of kelson created the project; this is its source."}}
		}
	}
	return nil
}

// Follow updates go.mod and go.sum of a project whose replace directive points at a checkout of
// Kelson to the requirements of that checkout. It does not change other projects.
func Follow(dir string) ([]Change, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	st := newStage(abs)
	mod, err := st.read("go.mod")
	if err != nil || mod == nil {
		return nil, err
	}
	checkout := checkoutOf(mod)
	if checkout == "" {
		return nil, nil
	}
	if !isCheckout(checkout) {
		return nil, fmt.Errorf("the replace directive for Kelson in go.mod points at %s, which is not a checkout of Kelson", checkout)
	}
	m, err := readModules(Source{Checkout: checkout}, requires(mod, serverLibrary))
	if err != nil {
		return nil, err
	}
	w := &work{stage: st, project: &Project{Repo: modfile.ModulePath(mod)}}
	if err := w.require(m); err != nil {
		return nil, err
	}
	return st.commit()
}

// requires reports whether a go.mod requires a module.
func requires(mod []byte, module string) bool {
	f, err := modfile.ParseLax("go.mod", mod, nil)
	return err == nil && slices.ContainsFunc(f.Require, func(r *modfile.Require) bool { return r.Mod.Path == module })
}

// checkoutOf returns the folder of Kelson's source in the replace directive of a scaffolded go.mod,
// or "".
func checkoutOf(mod []byte) string {
	f, err := modfile.Parse("go.mod", mod, nil)
	if err != nil {
		return ""
	}
	for _, r := range f.Replace {
		if r.Old.Path == library && r.New.Version == "" && filepath.IsAbs(r.New.Path) &&
			filepath.Base(r.New.Path) == "operator" {
			return filepath.Dir(r.New.Path)
		}
	}
	return ""
}
