// Package manifests reads and builds the manifests of an operator project.
//
//	definitions, err := manifests.Definitions(dir)
//	all, err := manifests.Default(dir)
//	err = all.SetImage("registry.example/welcome:v1")
package manifests

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"kelson.dev/operator/operatortest/manifest"
	"kelson.dev/toolchain/adopt"
)

// ErrNone reports that the project does not have the requested manifests.
var ErrNone = errors.New("the project has no such manifests")

// Objects are manifests in the order of their files.
type Objects []*unstructured.Unstructured

// Definitions returns the project's CustomResourceDefinitions: the kustomization config/crd if it
// exists, otherwise the files in config/crd and config/crd/bases.
func Definitions(dir string) (Objects, error) {
	return Folder(filepath.Join(dir, "config", "crd"))
}

// Folder returns the objects of a folder: its kustomization if it has one, otherwise its files and
// those in its folder bases. If folder is a file, it returns the objects of the file.
func Folder(folder string) (Objects, error) {
	if adopt.HasKustomization(folder) {
		return Build(folder)
	}
	return read(folder)
}

// Samples returns the project's samples: the kustomization config/samples if it exists, otherwise
// the files in that folder.
func Samples(dir string) (Objects, error) {
	return Folder(filepath.Join(dir, "config", "samples"))
}

// APIServices returns the APIServices of a custom API server: the kustomization config/apiservice
// if it exists, otherwise the files in that folder.
func APIServices(dir string) (Objects, error) {
	all, err := Folder(filepath.Join(dir, "config", "apiservice"))
	return slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() != "APIService" }), err
}

// Default returns all objects of the operator's deployment: the kustomization config/default, or
// the one that the project's Makefile deploys instead. It returns ErrNone if the project has no
// such kustomization.
func Default(dir string) (Objects, error) {
	folder, _, err := adopt.Deployment(dir)
	if err != nil {
		return nil, err
	}
	if !adopt.HasKustomization(folder) {
		return nil, fmt.Errorf("build %s: %w: kustomization.yaml does not exist", folder, ErrNone)
	}
	return Build(folder)
}

func read(folder string) (Objects, error) {
	folders := []string{folder}
	if info, err := os.Stat(folder); err == nil && info.IsDir() {
		folders = append(folders, filepath.Join(folder, "bases"))
	}
	var all Objects
	for _, f := range folders {
		found, err := manifest.Read(f)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, manifest.ErrNone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			all = append(all, m.Object)
		}
	}
	return all, nil
}

// Build builds the kustomization in folder.
func Build(folder string) (Objects, error) { return build(filesys.MakeFsOnDisk(), folder) }

func build(files filesys.FileSystem, folder string) (Objects, error) {
	options := krusty.MakeDefaultOptions()
	// namespaces and definitions before their objects, webhooks last
	options.Reorder = krusty.ReorderOptionLegacy
	built, err := krusty.MakeKustomizer(options).Run(files, folder)
	if err != nil {
		return nil, explain(folder, err)
	}
	var all Objects
	for _, res := range built.Resources() {
		data, err := res.MarshalJSON()
		if err != nil {
			return nil, err
		}
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(data); err != nil {
			return nil, fmt.Errorf("build %s: %w", folder, err)
		}
		all = append(all, obj)
	}
	return all, nil
}

// Split separates the CustomResourceDefinitions from the other objects.
func (o Objects) Split() (definitions, rest Objects) {
	for _, obj := range o {
		if obj.GetKind() == "CustomResourceDefinition" {
			definitions = append(definitions, obj)
		} else {
			rest = append(rest, obj)
		}
	}
	return definitions, rest
}

// Reversed returns the objects in reverse order.
func (o Objects) Reversed() Objects {
	reversed := slices.Clone(o)
	slices.Reverse(reversed)
	return reversed
}

// YAML encodes the objects as one stream of documents.
func (o Objects) YAML() ([]byte, error) {
	var b strings.Builder
	for _, obj := range o {
		data, err := yaml.Marshal(obj.Object)
		if err != nil {
			return nil, err
		}
		b.WriteString("---\n")
		b.Write(data)
	}
	return []byte(b.String()), nil
}
