package explore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	kustomize "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"kelson.dev/operator/operatortest/manifest"
)

// samplesOf returns the inputs that create the samples in a folder. If its kustomization lists
// resources, these are the samples, as kustomize builds them. Other files, and objects of the same
// kind and name as an earlier one, are alternatives: they are tried one after the other, when the
// samples before them were deleted.
func samplesOf(dir string) ([]Input, error) {
	sets, err := sampleSets(dir)
	if err != nil {
		return nil, err
	}
	var inputs []Input
	for i, set := range sets {
		if i > 0 {
			for _, obj := range slices.Backward(sets[i-1]) {
				inputs = append(inputs, Delete(obj))
			}
		}
		for _, obj := range set {
			inputs = append(inputs, Create(obj))
		}
	}
	return inputs, nil
}

// sampleSets returns the samples, and then each alternative.
func sampleSets(dir string) (sets [][]*unstructured.Unstructured, err error) {
	config, err := kustomizationOf(dir)
	if err != nil {
		return nil, err
	}
	var first []*unstructured.Unstructured
	var alternatives [][]*unstructured.Unstructured
	used := map[string]bool{} // files
	if config != nil {
		built, err := build(dir)
		if err != nil {
			return nil, err
		}
		for _, obj := range built {
			if containsObject(first, obj) { // another version of the kind
				alternatives = append(alternatives, []*unstructured.Unstructured{obj})
			} else {
				first = append(first, obj)
			}
		}
		for _, name := range filesIn(config) {
			used[filepath.Join(dir, name)] = true
		}
	}
	all, err := manifest.Read(dir)
	if err != nil && (len(first) == 0 || !errors.Is(err, manifest.ErrNone)) {
		return nil, err
	}
	file := ""
	for _, m := range all {
		switch {
		case used[m.File]:
		case config == nil && !containsObject(first, m.Object):
			first = append(first, m.Object)
		case m.File == file:
			last := len(alternatives) - 1
			alternatives[last] = append(alternatives[last], m.Object)
		default:
			file, alternatives = m.File, append(alternatives, []*unstructured.Unstructured{m.Object})
		}
	}
	return append([][]*unstructured.Unstructured{first}, alternatives...), nil
}

// containsObject reports whether one of the objects has the same kind, namespace and name.
func containsObject(all []*unstructured.Unstructured, obj *unstructured.Unstructured) bool {
	return slices.ContainsFunc(all, func(o *unstructured.Unstructured) bool { return sameObject(o, obj) })
}

func sameObject(a, b *unstructured.Unstructured) bool {
	return a.GroupVersionKind().GroupKind() == b.GroupVersionKind().GroupKind() &&
		a.GetNamespace() == b.GetNamespace() && a.GetName() == b.GetName()
}

// kustomizationOf returns the kustomization of a folder; nil if there is none, or if it has no
// resources.
func kustomizationOf(dir string) (*kustomize.Kustomization, error) {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		var k kustomize.Kustomization
		if err := yaml.Unmarshal(data, &k); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
		if len(k.Resources) == 0 {
			return nil, nil
		}
		return &k, nil
	}
	return nil, nil
}

// filesIn returns the files that a kustomization uses.
func filesIn(k *kustomize.Kustomization) []string {
	files := slices.Concat(k.Resources, k.Components, k.Configurations, k.Crds, k.Generators, k.Transformers,
		k.Validators)
	for _, patch := range k.Patches {
		files = append(files, patch.Path)
	}
	for _, patch := range k.PatchesStrategicMerge {
		files = append(files, string(patch))
	}
	for _, patch := range k.PatchesJson6902 {
		files = append(files, patch.Path)
	}
	for _, replacement := range k.Replacements {
		files = append(files, replacement.Path)
	}
	return files
}

// build returns the objects of a kustomization.
func build(dir string) (all []*unstructured.Unstructured, err error) {
	config, err := kustomizationOf(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range filesIn(config) {
		// Resources may also be in other repositories.
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil && filepath.Ext(name) == ".yaml" &&
			!strings.Contains(name, "://") {
			return nil, fmt.Errorf("the kustomization of %s lists a file that does not exist: %w", dir, err)
		}
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("build kustomization %s: %w", dir, err)
	}
	for _, r := range built.Resources() {
		data, err := r.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("build kustomization %s: %w", dir, err)
		}
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(data); err != nil {
			return nil, fmt.Errorf("build kustomization %s: %w", dir, err)
		}
		all = append(all, obj)
	}
	return all, nil
}
