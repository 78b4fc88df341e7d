package vet

import (
	"path/filepath"
	"slices"

	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/toolchain/vet"
)

// patched returns the manifests with the definitions that the kustomization config/crd makes of
// those in its files. It ignores kustomizations that cannot be built without a network.
func patched(found vet.Manifests, paths []string) vet.Manifests {
	found = slices.Clone(found)
	for _, p := range paths {
		for _, folder := range []string{p, filepath.Join(p, "crd"), filepath.Join(p, "config", "crd")} {
			if abs, err := filepath.Abs(folder); err != nil || filepath.Base(abs) != "crd" {
				continue
			}
			built, _, err := manifests.BuildLocal(folder)
			if err != nil {
				continue
			}
			for _, obj := range built {
				for i, m := range found {
					if m.Object.GetKind() == "CustomResourceDefinition" &&
						m.Object.GroupVersionKind() == obj.GroupVersionKind() && m.Object.GetName() == obj.GetName() {
						with := *m
						with.Object = obj
						found[i] = &with
					}
				}
			}
		}
	}
	return found
}
