package toolchain

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"kelson.dev/toolchain/gen/crd"
)

// removeStale takes away the definitions of kinds that the project had and has no longer. They are told from those that somebody wrote by
// hand or took from elsewhere: their group is one of the project's, no type of the kind is left, and the file is as a generator leaves it.
func (r *run) removeStale(crds *crd.Generator, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	r.fail(err)
	kustomization, _ := os.ReadFile(filepath.Join(r.dir, "config", "crd", "kustomization.yaml")) // it need not be there
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			r.fail(err)
			continue
		}
		def := crds.Generated(data)
		if def == nil || filepath.Base(name) != def.Spec.Group+"_"+def.Spec.Names.Plural+".yaml" || !r.gone(def.Spec.Group, def.Spec.Names.Kind) {
			continue
		}
		removed, err := r.out.remove(name)
		r.fail(err)
		if removed && bytes.Contains(kustomization, []byte(filepath.Base(name))) {
			r.warnings = append(r.warnings, fmt.Errorf("there is no %s in %s any longer; config/crd/kustomization.yaml still names %s",
				def.Spec.Names.Kind, def.Spec.Group, filepath.Base(name)))
		}
	}
}

// gone says that a group is one of the project's, and that the kind is not in it.
func (r *run) gone(group, kind string) bool {
	ours := false
	for _, p := range r.api.Packages {
		if p.HasAPI && p.Group == group {
			ours = true
			if p.Type(kind) != nil {
				return false
			}
		}
	}
	return ours
}
