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

//go:embed all:_template
var embedded embed.FS

// templateVersion is the version of the template. After the first release, every change increments
// it. The previous content of changed files is then kept in the folder _former/VERSION, which is
// embedded too, for the three-way merge of kelson upgrade; the file .absent there lists files that
// the version did not have.
const templateVersion = 5

// oldestTemplate is the version of the first release. No project has an older one.
const oldestTemplate = 5

// blueprint has the files of a template by name. Names begin with the step of the file.
type blueprint map[string][]byte

// read returns the files below a folder.
func read(files fs.FS, dir string) (blueprint, error) {
	all := blueprint{}
	err := fs.WalkDir(files, dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		all[strings.TrimPrefix(name, dir+"/")], err = fs.ReadFile(files, name)
		return err
	})
	return all, err
}

// currentTemplate returns the current template.
func currentTemplate() blueprint {
	all, err := read(embedded, "_template")
	if err != nil {
		panic(err) // embedded files always exist
	}
	return all
}

// templateOf returns a version of the template.
func templateOf(version int) (blueprint, error) {
	if version < oldestTemplate || version > templateVersion {
		return nil, fmt.Errorf("unknown template version %d: this kelson has versions %d to %d", version,
			oldestTemplate, templateVersion)
	}
	return former(embedded, currentTemplate(), version, templateVersion)
}

// former returns a version of the template: the current one with the former content, in files, of
// what changed since.
func former(files fs.FS, all blueprint, version, current int) (blueprint, error) {
	for v := current - 1; v >= version; v-- {
		otherwise, err := read(files, fmt.Sprintf("_former/%d", v))
		if err != nil {
			return nil, fmt.Errorf("read template version %d: %w", v, err)
		}
		for _, name := range strings.Fields(string(otherwise[absent])) {
			delete(all, name)
		}
		delete(otherwise, absent)
		maps.Copy(all, otherwise)
	}
	return all, nil
}

// absent is the name of the file that lists the files that a former version did not have.
const absent = ".absent"

// file is a rendered file of the template.
type file struct {
	name string
	data []byte
}

// render executes the files of one step.
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
				return nil, fmt.Errorf("format template %s: %w", name, err)
			}
		}
		all = append(all, file{target, data})
	}
	return all, nil
}
