package manifests

import (
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// BuildLocal builds the kustomization in folder without the resources that it downloads, which it
// also returns.
func BuildLocal(folder string) (objects Objects, remote []string, err error) {
	files := &localFiles{FileSystem: filesys.MakeFsOnDisk()}
	objects, err = build(files, folder)
	return objects, files.remote, err
}

// localFiles is a file system whose kustomizations have no remote resources.
type localFiles struct {
	filesys.FileSystem
	remote []string
}

// ReadFile implements filesys.FileSystem.
func (l *localFiles) ReadFile(name string) ([]byte, error) {
	data, err := l.FileSystem.ReadFile(name)
	if err != nil || !slices.Contains(konfig.RecognizedKustomizationFileNames(), filepath.Base(name)) {
		return data, err
	}
	var content map[string]any
	if yaml.Unmarshal(data, &content) != nil {
		return data, nil // kustomize reports the error
	}
	found := false
	for _, field := range []string{"resources", "bases", "components", "crds"} {
		list, _ := content[field].([]any)
		content[field] = slices.DeleteFunc(list, func(item any) bool {
			text, _ := item.(string)
			if !isRemote(text) {
				return false
			}
			if !slices.Contains(l.remote, text) {
				l.remote = append(l.remote, text)
			}
			found = true
			return true
		})
		if len(list) == 0 {
			delete(content, field)
		}
	}
	if !found {
		return data, nil
	}
	return yaml.Marshal(content)
}

// isRemote reports whether an entry of a kustomization is a URL or a Git repository.
func isRemote(entry string) bool {
	return strings.Contains(entry, "://") || strings.HasPrefix(entry, "github.com/") ||
		strings.HasPrefix(entry, "git@") ||
		strings.Contains(entry, "?ref=")
}
