// Package manifest reads objects from YAML and JSON files, as kubectl does.
//
//	manifests, err := manifest.Read("config/crd", "testdata/quota.yaml")
//	for _, m := range manifests {
//		err := client.Create(ctx, m.Object)
//	}
//
// It has no state.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// ErrNone is wrapped by the error about a path without objects.
var ErrNone = errors.New("no objects")

// Manifest is an object with the name of its file.
type Manifest struct {
	File   string
	Object *unstructured.Unstructured
}

// Read returns the objects in files, and in the .yaml, .yml and .json files in folders (not in
// subfolders), in this order and within a file in its order. It skips kustomizations. It returns an
// error for a path without objects, for documents that are not objects, and for objects without
// apiVersion, kind or name.
func Read(paths ...string) ([]Manifest, error) {
	var all []Manifest
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		found := len(all)
		for _, file := range files {
			if all, err = readFile(all, file); err != nil {
				return nil, fmt.Errorf("read manifests: %s: %w", file, err)
			}
		}
		if len(all) == found {
			return nil, fmt.Errorf("read manifests: %w in %s", ErrNone, path)
		}
	}
	return all, nil
}

func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path) // by name
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		switch filepath.Ext(entry.Name()) {
		case ".yaml", ".yml", ".json":
			if !entry.IsDir() && !strings.HasPrefix(entry.Name(), "kustomization.") {
				files = append(files, filepath.Join(path, entry.Name()))
			}
		}
	}
	return files, nil
}

func readFile(all []Manifest, file string) ([]Manifest, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := documents.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if len(obj.Object) == 0 {
			continue // empty, or only comments
		}
		if obj.GetAPIVersion() == "" || obj.GetKind() == "" || obj.GetName() == "" {
			return nil, fmt.Errorf("an object lacks apiVersion, kind or metadata.name: %q, %q, %q", obj.GetAPIVersion(),
				obj.GetKind(), obj.GetName())
		}
		all = append(all, Manifest{file, obj})
	}
}
