package manifests

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"kelson.dev/toolchain/adopt"
)

// kustomization has the parts of a kustomization that name files.
type kustomization struct {
	Resources             []string    `json:"resources"`
	Bases                 []string    `json:"bases"`
	Components            []string    `json:"components"`
	Configurations        []string    `json:"configurations"`
	CRDs                  []string    `json:"crds"`
	PatchesStrategicMerge []string    `json:"patchesStrategicMerge"`
	PatchesJSON6902       []namedFile `json:"patchesJson6902"`
	Patches               []namedFile `json:"patches"`
	ConfigMapGenerator    []generator `json:"configMapGenerator"`
	SecretGenerator       []generator `json:"secretGenerator"`
}

// generator has the parts of a generator of ConfigMaps or Secrets that name files.
type generator struct {
	Env   string   `json:"env"`
	Envs  []string `json:"envs"`
	Files []string `json:"files"` // PATH or KEY=PATH
}

type namedFile struct {
	Path string `json:"path"`
}

// folders returns the entries that may be folders with a kustomization.
func (k kustomization) folders() (all []string) {
	for _, entries := range [][]string{k.Resources, k.Bases, k.Components} {
		all = append(all, entries...)
	}
	return all
}

// files returns the entries that are files.
func (k kustomization) files() (all []string) {
	for _, entries := range [][]string{k.Configurations, k.CRDs, k.PatchesStrategicMerge} {
		all = append(all, entries...)
	}
	for _, entries := range [][]namedFile{k.PatchesJSON6902, k.Patches} {
		for _, entry := range entries {
			all = append(all, entry.Path)
		}
	}
	for _, g := range append(k.ConfigMapGenerator, k.SecretGenerator...) {
		all = append(append(all, g.Env), g.Envs...)
		for _, file := range g.Files {
			if _, path, named := strings.Cut(file, "="); named {
				file = path
			}
			all = append(all, file)
		}
	}
	return all
}

// explain returns an error that names the line to correct if a build failed because the
// kustomization in folder, or one that it includes, names a file that does not exist. Otherwise it
// returns err: kustomize's own message for a missing file names two attempts to read it and no
// remedy.
func explain(folder string, err error) error {
	if missing := findMissing(folder, map[string]bool{}); missing != nil {
		return missing
	}
	return fmt.Errorf("build %s: %w", folder, err)
}

// findMissing returns the error for the first missing file of the kustomization in folder and of
// those that it includes; nil if there is none.
func findMissing(folder string, seen map[string]bool) error {
	file := adopt.Kustomization(folder)
	if file == "" || seen[file] {
		return nil
	}
	seen[file] = true
	var k kustomization
	if data, err := os.ReadFile(file); err != nil || yaml.Unmarshal(data, &k) != nil {
		return nil // kustomize reports it
	}
	for _, entry := range append(k.folders(), k.files()...) {
		if !local(entry) {
			continue
		}
		path := filepath.Join(folder, entry)
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return &missingError{file: file, entry: entry, path: path}
		}
		if err == nil && info.IsDir() {
			if err := findMissing(path, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// local reports whether an entry of a kustomization is a path: neither remote nor a patch as text.
func local(entry string) bool {
	return entry != "" && !strings.Contains(entry, "\n") && !isRemote(entry)
}

// missingError reports an entry of a kustomization whose file does not exist.
type missingError struct{ file, entry, path string }

func (e *missingError) Error() string {
	return fmt.Sprintf("build %s: %s does not exist, but %s lists %s: %s",
		filepath.Dir(e.file), e.path, filepath.Base(e.file), e.entry, e.advice())
}

// advice returns the next step, which depends on what usually creates the file.
func (e *missingError) advice() string {
	switch in := filepath.Base(filepath.Dir(e.file)); {
	case filepath.ToSlash(e.entry) == "../crd":
		return "kelson create api adds a kind and the folder; in a project without kinds, remove the line"
	case in == "rbac" && e.entry == "role.yaml":
		return "kelson generate writes it from markers +kubebuilder:rbac; without such markers, remove the line"
	case in == "webhook" && e.entry == "manifests.yaml":
		return "kelson generate writes it from markers +kubebuilder:webhook; without such markers, remove the line"
	case in == "crd" && strings.HasPrefix(filepath.ToSlash(e.entry), "bases/"):
		return "kelson generate writes it from a type with +kubebuilder:object:root; without the type, remove the line"
	}
	return "create it, or remove the line"
}
