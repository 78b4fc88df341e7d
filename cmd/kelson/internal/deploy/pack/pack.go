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

// ErrNoDeployment reports that the manifests have no Deployment that runs the operator.
var ErrNoDeployment = errors.New("config/default has no Deployment")

// Files maps the paths of files in a folder to their content.
type Files map[string][]byte

// Write writes the files to dir and removes other files from it.
func (f Files) Write(dir string) error {
	var stale []string
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if _, stays := f[filepath.ToSlash(rel)]; err == nil && !stays {
			stale = append(stale, name)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for name, data := range f {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, data) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
	}
	for _, name := range stale {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// Installer returns all manifests as one file.
func Installer(o Operator) ([]byte, error) {
	objects, err := o.withImage()
	if err != nil {
		return nil, err
	}
	return objects.YAML()
}

func (o Operator) withImage() (manifests.Objects, error) {
	if o.deployment() == nil {
		return nil, ErrNoDeployment
	}
	var all manifests.Objects
	for _, obj := range o.Objects {
		all = append(all, obj.DeepCopy())
	}
	all.SetImage(o.Image)
	return all, nil
}

// deployment returns the first Deployment, or nil if there is none.
func (o Operator) deployment() *unstructured.Unstructured {
	for _, obj := range o.Objects {
		if obj.GetKind() == "Deployment" {
			return obj
		}
	}
	return nil
}

// has reports whether the manifests contain an object of a kind.
func (o Operator) has(kind string) bool {
	return slices.ContainsFunc(o.Objects, func(obj *unstructured.Unstructured) bool { return obj.GetKind() == kind })
}

// namespace returns the namespace of the operator's Deployment.
func (o Operator) namespace() string {
	if d := o.deployment(); d != nil {
		return d.GetNamespace()
	}
	return ""
}

// fileName returns the name of the file for an object.
func fileName(obj *unstructured.Unstructured) string {
	return strings.ToLower(obj.GetKind()) + "-" + strings.NewReplacer(":", "-", "/", "-").Replace(obj.GetName()) + ".yaml"
}

func encode(v any) ([]byte, error) {
	data, err := yaml.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	return data, nil
}
