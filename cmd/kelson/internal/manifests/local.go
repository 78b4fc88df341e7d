package manifests

import (
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// Omitted are the resources of kustomizations without which BuildLocal has built.
type Omitted struct {
	// Remote are those that kustomize would download.
	Remote []string
	// Missing are the errors about files and folders that do not exist.
	Missing []error
}

// BuildLocal builds the kustomization in folder without the resources that it downloads, or that do
// not exist. It also returns these.
func BuildLocal(folder string) (objects Objects, without Omitted, err error) {
	files := &localFiles{FileSystem: filesys.MakeFsOnDisk()}
	objects, err = build(files, folder)
	return objects, files.omitted, err
}

// localFiles is a file system whose kustomizations have only resources that exist in it.
type localFiles struct {
	filesys.FileSystem
	omitted Omitted
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
	changed := false
	for _, field := range []string{"resources", "bases", "components", "crds"} {
		list, _ := content[field].([]any)
		kept := slices.DeleteFunc(list, func(item any) bool {
			text, _ := item.(string)
			return l.omits(name, text)
		})
		changed = changed || len(kept) < len(list)
		if content[field] = kept; len(kept) == 0 {
			delete(content, field)
		}
	}
	if !changed {
		return data, nil
	}
	return yaml.Marshal(content)
}

// omits reports whether an entry of a kustomization is remote or does not exist, and records that.
func (l *localFiles) omits(file, entry string) bool {
	path := filepath.Join(filepath.Dir(file), filepath.FromSlash(entry))
	switch {
	case isRemote(entry):
		if !slices.Contains(l.omitted.Remote, entry) {
			l.omitted.Remote = append(l.omitted.Remote, entry)
		}
		return true
	case local(entry) && !l.Exists(path):
		missing := &missingError{file: file, entry: entry, path: path}
		if !slices.ContainsFunc(l.omitted.Missing, func(err error) bool { return err.Error() == missing.Error() }) {
			l.omitted.Missing = append(l.omitted.Missing, missing)
		}
		return true
	}
	return false
}

// isRemote reports whether an entry of a kustomization is a URL or a Git repository.
func isRemote(entry string) bool {
	return strings.Contains(entry, "://") || strings.HasPrefix(entry, "github.com/") ||
		strings.HasPrefix(entry, "git@") ||
		strings.Contains(entry, "?ref=")
}
