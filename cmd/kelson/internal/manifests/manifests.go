// Package manifests builds what an operator project deploys: its kustomizations, as one stream of objects.
//
//	definitions, err := manifests.Definitions(dir)
//	all, err := manifests.Default(dir, manifests.Image("registry.example/welcome:v1"))
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
)

// ErrNone says that the project has no such manifests.
var ErrNone = errors.New("the project has none")

// Placeholder is the image that manifests name until another is said.
const Placeholder = "controller"

// Objects are manifests in their order.
type Objects []*unstructured.Unstructured

// Definitions are the project's CustomResourceDefinitions: the kustomization config/crd, else the files below it.
func Definitions(dir string) (Objects, error) {
	folder := filepath.Join(dir, "config", "crd")
	if _, err := os.Stat(filepath.Join(folder, "kustomization.yaml")); err == nil {
		return Build(folder)
	}
	return read(folder)
}

// Samples are the project's samples: the kustomization config/samples, else the files in it.
func Samples(dir string) (Objects, error) {
	folder := filepath.Join(dir, "config", "samples")
	if _, err := os.Stat(filepath.Join(folder, "kustomization.yaml")); err == nil {
		return Build(folder)
	}
	return read(folder)
}

// Default is all that the operator is in a cluster: the kustomization config/default.
func Default(dir string) (Objects, error) {
	folder := filepath.Join(dir, "config", "default")
	if _, err := os.Stat(filepath.Join(folder, "kustomization.yaml")); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: there is no kustomization.yaml", folder, ErrNone)
	}
	return Build(folder)
}

func read(folder string) (Objects, error) {
	var all Objects
	for _, f := range []string{folder, filepath.Join(folder, "bases")} {
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

// Build builds a kustomization.
func Build(folder string) (Objects, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy // namespaces and definitions before what is in them, webhooks last
	built, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", folder, err)
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

// Split gives the CustomResourceDefinitions, and the rest.
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

// Reversed is the last first.
func (o Objects) Reversed() Objects {
	reversed := slices.Clone(o)
	slices.Reverse(reversed)
	return reversed
}

// SetImage has all containers that name the placeholder run an image.
func (o Objects) SetImage(image string) {
	if image == "" {
		return
	}
	for _, obj := range o {
		for _, list := range []string{"containers", "initContainers"} {
			path := []string{"spec", "template", "spec", list}
			containers, ok, err := unstructured.NestedSlice(obj.Object, path...)
			if !ok || err != nil {
				continue
			}
			for _, c := range containers {
				if c, ok := c.(map[string]any); ok {
					if is, _ := c["image"].(string); is == Placeholder || strings.HasPrefix(is, Placeholder+":") {
						c["image"] = image
					}
				}
			}
			_ = unstructured.SetNestedSlice(obj.Object, containers, path...)
		}
	}
}

// YAML is all of them as one stream.
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
