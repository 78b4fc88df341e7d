package scaffold

import (
	"bytes"
	"embed"
	"fmt"
	"go/format"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"text/template"
)

//go:embed all:_template all:_former
var embedded embed.FS

// TemplateVersion grows with every change of what projects are made of. The files that were otherwise before are then kept in _former, in a
// folder of the version before, so that kelson upgrade knows what projects were made of; the file .absent there names those that were not.
const TemplateVersion = 3

// blueprint is a template: its files by their names, which begin with the step that they belong to.
type blueprint map[string][]byte

// read gives the files below a folder of what is embedded.
func read(dir string) (blueprint, error) {
	all := blueprint{}
	err := fs.WalkDir(embedded, dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		all[strings.TrimPrefix(name, dir+"/")], err = embedded.ReadFile(name)
		return err
	})
	return all, err
}

// present is the template of this version.
func present() blueprint {
	all, err := read("_template")
	if err != nil {
		panic(err) // what is embedded is there
	}
	return all
}

// templateOf is the template of a version: the present one, with what was otherwise before the versions since.
func templateOf(version int) (blueprint, error) {
	if version < 1 || version > TemplateVersion {
		return nil, fmt.Errorf("the project is of version %d of the template, and this kelson knows versions 1 to %d", version, TemplateVersion)
	}
	all := present()
	for v := TemplateVersion - 1; v >= version; v-- {
		otherwise, err := read(fmt.Sprintf("_former/%d", v))
		if err != nil {
			return nil, fmt.Errorf("version %d of the template: %w", v, err)
		}
		for _, name := range strings.Fields(string(otherwise[absent])) {
			delete(all, name)
		}
		delete(otherwise, absent)
		maps.Copy(all, otherwise)
	}
	return all, nil
}

// absent is the file that names those which a former version did not have.
const absent = ".absent"

// file is a file as the template has it.
type file struct {
	name string
	data []byte
}

// render fills in one step of the template.
func render(from blueprint, step string, v values) ([]file, error) {
	var all []file
	for _, name := range slices.Sorted(maps.Keys(from)) {
		rest, ok := strings.CutPrefix(name, step+"/")
		if !ok {
			continue
		}
		t, err := template.New(name).Option("missingkey=error").Parse(string(from[name]))
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, v); err != nil {
			return nil, err
		}
		data := b.Bytes()
		target := v.fileName(strings.TrimSuffix(rest, ".tmpl"))
		if path.Ext(target) == ".go" {
			if data, err = format.Source(data); err != nil {
				return nil, fmt.Errorf("template %s: %w", name, err)
			}
		}
		all = append(all, file{target, data})
	}
	return all, nil
}
