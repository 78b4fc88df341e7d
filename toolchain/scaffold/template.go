package scaffold

import (
	"bytes"
	"embed"
	"fmt"
	"go/format"
	"io/fs"
	"path"
	"strings"
	"text/template"
)

//go:embed all:_template
var embedded embed.FS

// TemplateVersion grows with every change of what projects are made of.
const TemplateVersion = 1

// present is the template of this version.
func present() fs.FS {
	sub, err := fs.Sub(embedded, "_template")
	if err != nil {
		panic(err) // a constant is wrong
	}
	return sub
}

// file is a file as the template has it.
type file struct {
	name string
	data []byte
}

// render fills in one step of the template.
func render(from fs.FS, step string, v values) ([]file, error) {
	var all []file
	err := fs.WalkDir(from, step, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		t, err := template.New(name).Option("missingkey=error").Parse(string(text))
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, v); err != nil {
			return err
		}
		data := b.Bytes()
		target := v.fileName(strings.TrimSuffix(strings.TrimPrefix(name, step+"/"), ".tmpl"))
		if path.Ext(target) == ".go" {
			if data, err = format.Source(data); err != nil {
				return fmt.Errorf("template %s: %w", name, err)
			}
		}
		all = append(all, file{target, data})
		return nil
	})
	return all, err
}
