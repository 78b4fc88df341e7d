package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
)

// InitOptions describes a new project.
type InitOptions struct {
	Dir    string // its folder, which Init creates if it does not exist
	Domain string // the end of the names of its API groups
	Repo   string // path of its Go module; the default is that of an existing go.mod
	Name   string // the folder's name by default
	Source Source // the source of Kelson's modules
	Server bool   // the project is a custom API server, not an operator
	// License and Owner are written to hack/boilerplate.go.txt, with which generated code begins.
	// The licenses are the same as kubebuilder's: apache2, copyright (only a line with the owner),
	// none.
	License, Owner string
}

// allowedBeforeInit lists files that a folder may contain before Init.
var allowedBeforeInit = regexp.MustCompile(`^(\..*|go\.mod|go\.sum|LICENSE.*|README.*|[A-Z]+\.md)$`)

// Init creates a project. It does not change a folder that already has the same project.
func Init(opts InitOptions) ([]Change, error) {
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, err
	}
	if err := checkDomain(opts.Domain); err != nil {
		return nil, err
	}
	if opts.Name == "" {
		opts.Name = strings.ToLower(filepath.Base(dir))
	}
	if err := checkProjectName(opts.Name, opts.Server); err != nil {
		return nil, err
	}
	st := newStage(dir)
	mod, err := st.read("go.mod")
	if err != nil {
		return nil, err
	}
	if module := modfile.ModulePath(mod); mod != nil && opts.Repo == "" {
		opts.Repo = module
	} else if mod != nil && opts.Repo != module {
		return nil, fmt.Errorf("--repo is %s, but the module in go.mod is %s", opts.Repo, module)
	}
	if opts.Repo == "" {
		return nil, errors.New("--repo is required without a go.mod: the path of the project's Go module, for example example.com/welcome")
	}
	if err := checkRepo(opts.Repo); err != nil {
		return nil, err
	}
	p := &Project{Domain: opts.Domain, Name: opts.Name, Repo: opts.Repo, Layout: []string{Layout}}
	if opts.Server {
		p.Layout = []string{ServerLayout}
	}
	switch old, err := ReadProject(dir); {
	case err == nil:
		if old.Domain == p.Domain && old.Name == p.Name && old.Repo == p.Repo && slices.Equal(old.Layout, p.Layout) {
			return nil, nil
		}
		return nil, fmt.Errorf("%s already is a project, with domain %s, repo %s and layout %s", opts.Dir, old.Domain,
			old.Repo, strings.Join(old.Layout, ","))
	case !errors.Is(err, ErrNoProject):
		return nil, err
	}
	if err := checkEmpty(dir); err != nil {
		return nil, err
	}
	w := &work{stage: st, template: currentTemplate(), project: p}
	header, err := boilerplate(opts.License, opts.Owner, time.Now().Year())
	if err != nil {
		return nil, err
	}
	if header != "" && !st.exists(boilerplateName) {
		st.write(boilerplateName, []byte(header))
	}
	if err := w.initialise(opts.Source, true); err != nil {
		return nil, err
	}
	return w.commit()
}

func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !allowedBeforeInit.MatchString(e.Name()) {
			return fmt.Errorf("%s is not empty: it contains %s", dir, e.Name())
		}
	}
	return nil
}

// work is a change of a project in progress.
type work struct {
	stage    *stage
	template blueprint
	project  *Project
	// the go.mod of the enclosing module, if the project is not a module itself
	enclosingMod []byte
}

// readEnclosingMod returns the go.mod of the parent folder that gives the folder's packages the
// import path repo.
func readEnclosingMod(folder, repo string) ([]byte, error) {
	for dir := filepath.Dir(folder); ; dir = filepath.Dir(dir) {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if rel, relErr := filepath.Rel(dir, folder); err == nil && relErr == nil &&
			modfile.ModulePath(mod)+"/"+filepath.ToSlash(rel) == repo {
			return mod, nil
		}
		if err == nil || dir == filepath.Dir(dir) {
			return nil, fmt.Errorf("no go.mod next to PROJECT: run go mod init %s, then kelson upgrade", repo)
		}
	}
}

// open starts a change of the project in a folder.
func open(dir string) (*work, error) {
	p, err := ReadProject(dir)
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	w := &work{stage: newStage(abs), template: currentTemplate(), project: p}
	if !p.IsServer() && !slices.Equal(p.Layout, []string{Layout}) {
		return nil, fmt.Errorf("kelson cannot change projects with layout %s, only with %s and %s; generate, build and run work with any layout",
			strings.Join(p.Layout, ","), Layout, ServerLayout)
	}
	w.locateCore()
	mod, err := w.stage.read("go.mod")
	if err != nil {
		return nil, err
	}
	if mod == nil {
		w.enclosingMod, err = readEnclosingMod(abs, p.Repo)
		return w, err
	}
	if module := modfile.ModulePath(mod); module != p.Repo {
		return nil, fmt.Errorf("the repo in PROJECT is %s, but the module in go.mod is %s", p.Repo, module)
	}
	return w, nil
}

// locateCore finds out whether the files of the kinds of Kubernetes are in folders of their groups.
// Unlike those of the project's own kinds, their paths do not say so.
func (w *work) locateCore() {
	for i := range w.project.Resources {
		r := &w.project.Resources[i]
		for _, grouped := range []bool{true, false} {
			if !r.Core || r.grouped != nil {
				break
			}
			r.grouped = &grouped
			v := w.project.valuesOf(r)
			if !w.stage.exists(v.fileName("internal/controller/INGROUP/KIND_controller.go")) &&
				!w.stage.exists(v.fileName("internal/webhook/INGROUP/VERSION/KIND_webhook.go")) {
				r.grouped = nil
			}
		}
	}
}

// initialise adds the files of the project itself. It does not overwrite files.
func (w *work) initialise(source Source, withModules bool) error {
	v := w.project.values()
	if withModules {
		m, err := readModules(source, w.project.IsServer())
		if err != nil {
			return err
		}
		if err := w.require(m); err != nil {
			return err
		}
		v.Checkout, v.GoVersion = source.Checkout, goMinor(m.goVersion())
	}
	return w.add(w.project.base(), v)
}

// require updates go.mod and go.sum to the requirements of the library.
func (w *work) require(m *modules) error {
	mod, err := w.stage.read("go.mod")
	if err != nil {
		return err
	}
	sum, err := w.stage.read("go.sum")
	if err != nil {
		return err
	}
	if mod, sum, err = m.apply(mod, sum, w.project.Repo); err != nil {
		return err
	}
	w.stage.write("go.mod", mod)
	w.stage.write("go.sum", sum)
	return nil
}

// goMinor returns a Go version without its patch release.
func goMinor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// add adds the files of a template step. It does not overwrite files.
func (w *work) add(step string, v values) error {
	files, err := render(w.template, step, v)
	if err != nil {
		return err
	}
	for _, f := range files {
		if !w.stage.exists(f.name) {
			w.stage.write(f.name, f.data)
		}
	}
	return nil
}

// commit writes PROJECT and all other changes to the disk.
func (w *work) commit() ([]Change, error) {
	if err := w.finish(); err != nil {
		return nil, err
	}
	return w.stage.commit()
}

func (w *work) finish() error {
	if w.project.template() == 0 {
		w.project.setTemplate(TemplateVersion)
	}
	data, err := w.project.Marshal()
	if err != nil {
		return err
	}
	w.stage.write(ProjectFile, data)
	return nil
}
