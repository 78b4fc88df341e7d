package scaffold

import (
	"cmp"
	"path"
	"strings"

	"kelson.dev/toolchain/scaffold/goedit"
)

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

func (w *work) createController(r *Resource, force bool) error {
	v := w.valuesOf(r)
	step := "controller"
	if r.Core {
		step = "core"
	}
	if err := w.addFiles(step, v, force); err != nil {
		return err
	}
	return w.addController(v)
}

// controllerImport returns the import of the package of the kind's controller in main.go, where the
// name may be taken.
func (w *work) controllerImport(v values) (name, importPath string) {
	importPath = path.Join(w.project.Repo, "internal/controller", v.InGroup)
	if v.InGroup != "" {
		name = packageName(v.Group) + "controller"
	}
	return name, importPath
}

// addController adds the controller of a kind to the call of operator.Main.
func (w *work) addController(v values) error {
	return w.stage.edit(mainFile, func(src []byte) ([]byte, error) {
		name, importPath := w.controllerImport(v)
		src, name, err := goedit.Import(src, name, importPath)
		if err != nil {
			return nil, err
		}
		return w.addPart(src, controllerPart(name, v))
	})
}

// removeController undoes addController.
func (w *work) removeController(v values) error {
	return w.stage.edit(mainFile, func(src []byte) ([]byte, error) {
		_, importPath := w.controllerImport(v)
		name := goedit.ImportName(src, importPath)
		src, err := goedit.RemoveArgument(src, mainCall, controllerPart(name, v))
		if err != nil {
			return nil, err
		}
		return goedit.RemoveImport(src, importPath)
	})
}

func controllerPart(name string, v values) string { return name + "." + v.Kind + "Controller()" }
