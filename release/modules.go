package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// published are the folders of the modules that users require or install.
var published = []string{".", "internal", "apiserver", "operator", "operator/adapter", "cmd/kelson-node", "cmd/kelson-dns"}

// root is the path of the module in the repository's root.
const root = "kelson.dev"

// writeModules writes modules/: the published modules in the layout of a module proxy, so that
// GOPROXY=file://… and every web server can serve them. Their go.mod files require each other at
// the version of the release; the replace directives of the repository are removed.
func (r *release) writeModules(context.Context) error {
	license, err := os.ReadFile(filepath.Join(r.src.dir, "LICENSE"))
	if err != nil {
		return err
	}
	for _, folder := range published {
		dir := filepath.Join(r.src.dir, filepath.FromSlash(folder))
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			return err
		}
		data, err = publishedMod(data, r.src.version)
		if err != nil {
			return fmt.Errorf("%s/go.mod: %w", folder, err)
		}
		v := module.Version{Path: modfile.ModulePath(data), Version: r.src.version}
		if err := r.writeModule(dir, v, data, license); err != nil {
			return fmt.Errorf("write module %s: %w", v.Path, err)
		}
	}
	page, err := execute(goImport, r.about())
	if err != nil {
		return err
	}
	r.step("modules: %d", len(published))
	return os.WriteFile(filepath.Join(r.out, "go-import.html"), page, 0o644)
}

// goImport is the page at https://kelson.dev, and at every path below it, for go get.
const goImport = `<!DOCTYPE html>
<title>kelson.dev</title>
<meta name="go-import" content="kelson.dev mod {{.Modules}}">
`

// publishedMod returns the go.mod of a published module: without replace directives, and with the
// version of the release for the modules of this repository.
func publishedMod(data []byte, version string) ([]byte, error) {
	f, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		return nil, err
	}
	for _, replace := range f.Replace {
		if !within(replace.Old.Path) {
			return nil, fmt.Errorf("replaces %s, which is not part of this repository", replace.Old.Path)
		}
		if err := f.DropReplace(replace.Old.Path, replace.Old.Version); err != nil {
			return nil, err
		}
	}
	for _, require := range f.Require {
		if within(require.Mod.Path) {
			if err := f.AddRequire(require.Mod.Path, version); err != nil {
				return nil, err
			}
		}
	}
	f.Cleanup()
	return f.Format()
}

// within reports whether a module is one of this repository.
func within(path string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// writeModule writes one module of the release. Its zip file has the same content as one from a
// repository.
func (r *release) writeModule(dir string, v module.Version, mod, license []byte) error {
	escaped, err := module.EscapePath(v.Path)
	if err != nil {
		return err
	}
	out := filepath.Join(r.out, "modules", filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	files, err := moduleFiles(dir, mod, license)
	if err != nil {
		return err
	}
	packed, err := os.Create(filepath.Join(out, v.Version+".zip"))
	if err != nil {
		return err
	}
	if err := errors.Join(modzip.Create(packed, v, files), packed.Close()); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": v.Version, "Time": r.src.at})
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(out, v.Version+".info"), info, 0o644),
		os.WriteFile(filepath.Join(out, v.Version+".mod"), mod, 0o644),
		os.WriteFile(filepath.Join(out, "list"), []byte(v.Version+"\n"), 0o644),
	)
}

// moduleFiles lists the files of a module, without those of modules below it. A module without a
// license gets the license of the repository, as the go command would do.
func moduleFiles(dir string, mod, license []byte) (files []modzip.File, err error) {
	licensed := false
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		below, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil // symbolic links are not part of modules
		}
		f := moduleFile{name: filepath.ToSlash(below), from: name}
		switch f.name {
		case "go.mod":
			f.content = mod
		case "LICENSE":
			licensed = true
		}
		files = append(files, f)
		return nil
	})
	if !licensed {
		files = append(files, moduleFile{name: "LICENSE", content: license, from: filepath.Join(dir, "go.mod")})
	}
	return files, err
}
