package scaffold

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"kelson.dev/toolchain/scaffold/goedit"
	"kelson.dev/toolchain/scaffold/yamledit"
)

// work is a change of a project in progress: the staged files, and the resources of its PROJECT
// file. The other types change parts of it; each is one part of the project that changes together.
type work struct {
	stage    *stage
	template blueprint
	project  *Project
	// the go.mod of the enclosing module, if the project is not a module itself
	enclosingMod []byte
}

// types returns the Go types of the project's kinds.
func (w *work) types() apiTypes { return apiTypes{w} }

// main returns the operator's program.
func (w *work) main() mainProgram { return mainProgram{w} }

// kinds returns the kinds of an operator, with their controllers.
func (w *work) kinds() operatorKinds { return operatorKinds{w} }

// served returns the kinds of a custom API server.
func (w *work) served() servedKinds { return servedKinds{w} }

// webhooks returns the webhooks of an operator.
func (w *work) webhooks() webhooks { return webhooks{w} }

// deletion decides which files a deletion may remove.
func (w *work) deletion() deletion { return deletion{w} }

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
			strings.Join(p.Layout, ","), Layout, serverLayout)
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

// listed is an entry of a kustomization.
type listed struct{ file, item string }

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
		w.project.setTemplate(templateVersion)
	}
	data, err := w.project.Marshal()
	if err != nil {
		return err
	}
	w.stage.write(ProjectFile, data)
	return nil
}

// addFiles adds the files of a step, which must not exist unless force is set.
func (w *work) addFiles(step string, v values, force bool) error {
	files, err := render(w.template, step, v)
	if err != nil {
		return err
	}
	shared := v.versions(w.project)
	for _, f := range files {
		if strings.HasPrefix(f.name, "config/rbac/") && shared > 0 && w.stage.exists(f.name) {
			continue // all versions share the roles
		}
		if old, err := w.stage.read(f.name); err != nil {
			return err
		} else if old != nil && !force && string(old) != string(f.data) {
			return fmt.Errorf("%s: %w (--force overwrites it)", f.name, ErrExists)
		}
		w.stage.write(f.name, f.data)
	}
	return nil
}

// valuesOf returns the values of a kind, with the names of the packages that the project has.
func (w *work) valuesOf(r *Resource) values {
	v := w.project.valuesOf(r)
	if v.InGroup != "" {
		v.Controllers = cmp.Or(w.packageIn("internal/controller/"+r.Group), v.Controllers)
		v.Kinds = cmp.Or(w.packageIn("internal/kinds/"+r.Group), v.Kinds)
	}
	return v
}

// packageIn returns the name of the package in a folder, or "" if the folder has none.
func (w *work) packageIn(dir string) string {
	for _, name := range w.stage.glob(dir + "/*.go") {
		if src, err := w.stage.read(name); err == nil && !strings.HasSuffix(name, "_test.go") {
			return goedit.PackageName(src)
		}
	}
	return ""
}

// drop removes a file if it exists.
func (w *work) drop(name string) {
	if w.stage.exists(name) {
		w.stage.remove(name)
	}
}

// sharesVersion reports whether the project has other kinds in the same version of the group.
func (w *work) sharesVersion(v values) bool {
	return slices.ContainsFunc(w.project.Resources, func(o Resource) bool {
		return o.API && o.Path == v.Path && o.Kind != v.Kind
	})
}

// list adds entries to kustomizations.
func (w *work) list(key string, all ...listed) error {
	for _, l := range all {
		if err := w.stage.edit(l.file, func(src []byte) ([]byte, error) {
			return yamledit.AddItem(src, key, l.item)
		}); err != nil {
			return err
		}
	}
	return nil
}

// unlist removes entries from kustomizations. It removes a kustomization that becomes empty if it
// was created for its entries.
func (w *work) unlist(key string, all ...listed) error {
	for _, l := range all {
		if !w.stage.exists(l.file) {
			continue
		}
		if err := w.stage.edit(l.file, func(src []byte) ([]byte, error) {
			return yamledit.RemoveItem(src, key, l.item)
		}); err != nil {
			return err
		}
		if data, _ := w.stage.read(l.file); len(data) == 0 {
			w.stage.remove(l.file)
		}
	}
	return nil
}
