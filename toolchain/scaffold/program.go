package scaffold

import (
	"fmt"
	"path"

	"kelson.dev/toolchain/scaffold/goedit"
)

// mainProgram edits cmd/main.go, whose call of operator.Main lists the parts of the operator.
type mainProgram struct{ work *work }

// addToScheme adds the types to the operator's scheme.
func (m mainProgram) addToScheme(v values) error {
	return m.work.stage.edit(mainFile, func(src []byte) ([]byte, error) {
		src, name, err := goedit.Import(src, v.Alias, v.Path)
		if err != nil {
			return nil, err
		}
		add := name + ".AddToScheme"
		if goedit.HasCall(src, schemeCall) {
			return goedit.AddArgument(src, schemeCall, add)
		}
		return m.addPart(src, "operator.AddToScheme("+add+")")
	})
}

// addPart adds a part to the call of operator.Main.
func (m mainProgram) addPart(src []byte, part string) ([]byte, error) {
	src, err := goedit.AddArgument(src, mainCall, part)
	if err != nil {
		return nil, fmt.Errorf("add %s to the call of operator.Main: %w", part, err)
	}
	return src, nil
}

// controllerImport returns the import of the package of the kind's controller in main.go, where the
// name may be taken.
func (m mainProgram) controllerImport(v values) (name, importPath string) {
	importPath = path.Join(m.work.project.Repo, "internal/controller", v.InGroup)
	if v.InGroup != "" {
		name = packageName(v.Group) + "controller"
	}
	return name, importPath
}

// addController adds the controller of a kind to the call of operator.Main.
func (m mainProgram) addController(v values) error {
	return m.work.stage.edit(mainFile, func(src []byte) ([]byte, error) {
		name, importPath := m.controllerImport(v)
		src, name, err := goedit.Import(src, name, importPath)
		if err != nil {
			return nil, err
		}
		return m.addPart(src, controllerPart(name, v))
	})
}

// removeController undoes addController.
func (m mainProgram) removeController(v values) error {
	return m.work.stage.edit(mainFile, func(src []byte) ([]byte, error) {
		_, importPath := m.controllerImport(v)
		name := goedit.ImportName(src, importPath)
		src, err := goedit.RemoveArgument(src, mainCall, controllerPart(name, v))
		if err != nil {
			return nil, err
		}
		return goedit.RemoveImport(src, importPath)
	})
}

func (m mainProgram) removeFromScheme(v values, alone bool) error {
	if !alone {
		return nil
	}
	return m.work.stage.edit(mainFile, func(src []byte) ([]byte, error) {
		src, err := goedit.RemoveArgument(src, schemeCall, goedit.ImportName(src, v.Path)+".AddToScheme")
		if err != nil {
			return nil, err
		}
		args, err := goedit.Arguments(src, schemeCall)
		if err != nil {
			return nil, err
		}
		if len(args) == 0 {
			if src, err = goedit.RemoveArgument(src, mainCall, "operator.AddToScheme()"); err != nil {
				return nil, err
			}
		}
		return goedit.RemoveImport(src, v.Path)
	})
}

// webhookPath returns the import path of the package of the kind's webhooks.
func (m mainProgram) webhookPath(v values) string {
	return path.Join(m.work.project.Repo, "internal/webhook", v.InGroup, v.Version)
}

func controllerPart(name string, v values) string { return name + "." + v.Kind + "Controller()" }

func webhookPart(name string, v values) string { return name + "." + v.Kind + "Webhook()" }

func conversionPart(name string, v values) string {
	return "operator.Conversion[" + name + "." + v.Kind + "]()"
}

// removeConversionPart removes the conversion of a hub from a main.go.
func removeConversionPart(src []byte, hub values) ([]byte, error) {
	return goedit.RemoveArgument(src, mainCall, conversionPart(goedit.ImportName(src, hub.Path), hub))
}
