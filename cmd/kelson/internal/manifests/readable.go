package manifests

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"kelson.dev/operator/operatortest/manifest"
	"kelson.dev/toolchain/adopt"
)

// ReadableSamples returns the samples of a project whose files can be read, and what prevents the
// others. If the kustomization of config/samples cannot be built, the samples are in the files that
// it lists or, if none of these exists, in all files of the folder or of the folders in it.
func ReadableSamples(dir string) (Objects, error) {
	all, err := Samples(dir)
	if err == nil {
		return all, nil
	}
	folder := filepath.Join(dir, "config", "samples")
	var errs []error
	if adopt.HasKustomization(folder) {
		errs = append(errs, err)
	}
	for _, files := range [][]string{listedIn(folder), filesIn(folder), filesIn(folder + "/*")} {
		found, unread := readable(files)
		errs = append(errs, unread...)
		if len(found) > 0 {
			return found, errors.Join(errs...)
		}
	}
	return nil, errors.Join(errs...)
}

// listedIn returns the existing files that the kustomization in a folder lists as resources.
func listedIn(folder string) (files []string) {
	var k kustomization
	data, err := os.ReadFile(adopt.Kustomization(folder))
	if err != nil || yaml.Unmarshal(data, &k) != nil {
		return nil
	}
	for _, entry := range k.Resources {
		name := filepath.Join(folder, entry)
		if info, err := os.Stat(name); local(entry) && err == nil && info.Mode().IsRegular() {
			files = append(files, name)
		}
	}
	return files
}

// filesIn returns the manifests in folders, which a pattern names.
func filesIn(folders string) (files []string) {
	for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
		found, err := filepath.Glob(filepath.Join(folders, pattern))
		if err != nil {
			continue // a pattern in the name of the project's folder
		}
		for _, name := range found {
			if !strings.HasPrefix(filepath.Base(name), "kustomization.") {
				files = append(files, name)
			}
		}
	}
	return files
}

// readable returns the objects of files, and the errors of those that cannot be read.
func readable(files []string) (all Objects, errs []error) {
	for _, name := range files {
		found, err := manifest.Read(name)
		if err != nil && !errors.Is(err, manifest.ErrNone) {
			errs = append(errs, err)
		}
		for _, m := range found {
			all = append(all, m.Object)
		}
	}
	return all, errs
}
