package stage

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Load reads the Stages in files and folders of manifests, YAML or JSON, and checks them. In a
// folder, it reads the files with the extensions .yaml, .yml and .json, and skips kustomizations
// and subfolders.
func Load(paths ...string) (stages []*Stage, err error) {
	for _, path := range paths {
		files := []string{path}
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			if files, err = manifests(path); err != nil {
				return nil, err
			}
		}
		before := len(stages)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			more, err := Parse(data)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			stages = append(stages, more...)
		}
		if len(stages) == before {
			return nil, fmt.Errorf("%s: contains no Stage", path)
		}
	}
	return stages, nil
}

func manifests(folder string) (files []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			files = append(files, filepath.Join(folder, entry.Name()))
		}
	}
	return files, nil
}

// Parse reads the Stages in a file of manifests and checks them. Unknown fields are errors. The
// text of an error has one line.
func Parse(data []byte) (stages []*Stage, err error) {
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return stages, nil
		}
		if err != nil {
			return nil, err
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return nil, errors.New(oneLine(err))
		}
		if kind == (metav1.TypeMeta{}) && isBlank(document) || kind.Kind == "Kustomization" {
			continue
		}
		if kind.APIVersion != APIVersion || kind.Kind != Kind {
			return nil, fmt.Errorf("%s %s: want Stages of %s", kind.APIVersion, kind.Kind, APIVersion)
		}
		s := &Stage{}
		if err := yaml.UnmarshalStrict(document, s); err != nil {
			return nil, errors.New(oneLine(err))
		}
		if s.Name == "" {
			return nil, errors.New("a Stage has no name")
		}
		if _, err := Compile(s); err != nil {
			return nil, err
		}
		stages = append(stages, s)
	}
}

func isBlank(document []byte) bool {
	var content any
	return yaml.Unmarshal(document, &content) == nil && content == nil
}
