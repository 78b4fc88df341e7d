// Package pack creates packages from an operator's manifests: one file for kubectl, a Helm chart,
// or a bundle for the Operator Lifecycle Manager.
//
//	files, err := pack.Chart(pack.Operator{Name: "welcome", Version: "0.1.0", Image: image, Objects: objects})
//	err = files.Write("dist/chart")
package pack

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"kelson.dev/cmd/kelson/internal/manifests"
)

// Operator is the operator to package.
type Operator struct {
	Name, Version string
	Image         string
	Objects       manifests.Objects // of config/default
	Samples       manifests.Objects
}

// Files maps the paths of files in a folder to their content.
type Files map[string][]byte

// recordName is the file that lists the files of a written package, so that the next one can
// replace them.
const recordName = ".kelson-package"

const recordHeader = "# Files that kelson package wrote. It removes and replaces only these.\n"

// Write writes the files to dir, and removes those that an earlier Write left and this one does not
// have. It keeps all other files. It writes nothing if a file exists that no earlier Write created
// and that has other contents.
func (f Files) Write(dir string) error {
	earlier, err := readRecord(dir)
	if err != nil {
		return err
	}
	record := recordHeader
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(f)) {
		record += name + "\n"
		file := filepath.Join(dir, filepath.FromSlash(name))
		have, err := os.ReadFile(file)
		switch {
		case err == nil && bytes.Equal(have, f[name]):
			continue
		case err == nil && !slices.Contains(earlier, name):
			return fmt.Errorf("%s exists, and kelson package did not write it: remove it, or name another folder with --output", file)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		changed = append(changed, name)
	}
	write := func(name string, data []byte) error {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		return os.WriteFile(file, data, 0o644)
	}
	for _, name := range changed {
		if err := write(name, f[name]); err != nil {
			return err
		}
	}
	for _, name := range earlier {
		if _, stays := f[name]; stays {
			continue
		}
		if err := os.Remove(filepath.Join(dir, filepath.FromSlash(name))); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return write(recordName, []byte(record))
}

// readRecord returns the files that an earlier Write left in dir.
func readRecord(dir string) (names []string, err error) {
	file := filepath.Join(dir, recordName)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		name := strings.TrimSpace(line)
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return nil, fmt.Errorf("%s: %s is not a path below this folder", file, name)
		}
		names = append(names, name)
	}
	return names, nil
}

// Installer returns all manifests as one file.
func Installer(o Operator) ([]byte, error) {
	objects, _, err := o.withImage()
	if err != nil {
		return nil, err
	}
	return objects.YAML()
}

// withImage returns copies of the objects in which the operator has its image, and its container.
func (o Operator) withImage() (manifests.Objects, *manifests.Manager, error) {
	var all manifests.Objects
	for _, obj := range o.Objects {
		all = append(all, obj.DeepCopy())
	}
	m, err := all.Manager()
	if err != nil {
		return nil, nil, err
	}
	if o.Image != "" {
		all.ReplaceImage(m.Image, o.Image)
		m.Image = o.Image
	}
	return all, m, nil
}

// has reports whether the manifests contain an object of a kind.
func (o Operator) has(kind string) bool {
	return slices.ContainsFunc(o.Objects, func(obj *unstructured.Unstructured) bool { return obj.GetKind() == kind })
}

// fileName returns the name of the file for an object.
func fileName(obj *unstructured.Unstructured) string {
	return strings.ToLower(obj.GetKind()) + "-" + strings.NewReplacer(":", "-", "/", "-").Replace(obj.GetName()) +
		".yaml"
}

func encode(v any) ([]byte, error) {
	data, err := yaml.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	return data, nil
}
