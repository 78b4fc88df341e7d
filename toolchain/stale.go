package toolchain

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"kelson.dev/toolchain/gen/crd"
)

// removeStale removes the CustomResourceDefinitions of kinds that the project no longer has. It
// keeps files that were written by hand or copied from another project: it removes a file only if
// its group belongs to the project, the project has no type of its kind, and its content equals the
// generator's output.
func (r *run) removeStale(crds *crd.Generator, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	r.fail(err)
	// optional
	kustomization, _ := os.ReadFile(filepath.Join(r.dir, "config", "crd", "kustomization.yaml"))
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			r.fail(err)
			continue
		}
		def := crds.Generated(data)
		if def == nil || filepath.Base(name) != def.Spec.Group+"_"+def.Spec.Names.Plural+".yaml" ||
			!r.gone(def.Spec.Group, def.Spec.Names.Kind) {
			continue
		}
		removed, err := r.out.remove(name)
		r.fail(err)
		if removed && bytes.Contains(kustomization, []byte(filepath.Base(name))) {
			r.warnings = append(r.warnings, fmt.Errorf(
				"kind %s of group %s is gone; remove %s from config/crd/kustomization.yaml",
				def.Spec.Names.Kind, def.Spec.Group, filepath.Base(name)))
		}
	}
}

// gone reports whether a group belongs to the project and no longer has the kind as a custom
// resource.
func (r *run) gone(group, kind string) bool {
	ours := false
	for _, p := range r.api.Packages {
		if p.HasAPI && p.Group == group {
			ours = true
			if p.Type(kind) != nil && !p.Served() {
				return false
			}
		}
	}
	return ours
}
