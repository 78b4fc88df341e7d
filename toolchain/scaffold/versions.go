package scaffold

import (
	"fmt"
	"slices"

	"kelson.dev/toolchain/scaffold/goedit"
)

// otherVersions returns the other versions of a kind whose types are in the project.
func (p *Project) otherVersions(r *Resource) []*Resource {
	return slices.DeleteFunc(p.others(r), func(o *Resource) bool { return !o.API })
}

// checkStorage returns an error if several versions of a kind remain without r, but none of them is
// the storage version. A version that remains alone is the storage version without a marker.
func (w *work) checkStorage(r *Resource) error {
	others := w.project.otherVersions(r)
	if len(others) < 2 || !r.API || !w.isStorage(r) || slices.ContainsFunc(others, w.isStorage) {
		return nil
	}
	v := w.project.valuesOf(others[0])
	return fmt.Errorf("%s is the storage version of the kind, which has %d other versions: first put the marker %s on one of them, for example in %s",
		r, len(others), storageMarker, v.typesFile())
}

// isStorage reports whether a version of a kind has the marker of the storage version.
func (w *work) isStorage(r *Resource) bool {
	v := w.project.valuesOf(r)
	return slices.ContainsFunc(w.stage.glob(v.typesDir()+"/*.go"), func(name string) bool {
		src, err := w.stage.read(name)
		return err == nil && goedit.HasMarker(src, r.Kind, storageMarker)
	})
}

// keepController keeps the controller of a kind for its other versions when r is deleted, and
// records it for one of them. It replaces files that are as the template made them with those for
// that version. It returns an error if the user has changed a file that uses r.
func (w *work) keepController(r *Resource) error {
	others := w.project.otherVersions(r)
	if !r.API || !r.Controller || len(others) == 0 {
		return nil
	}
	old := w.valuesOf(r)
	files, err := render(w.template, "controller", old)
	if err != nil {
		return err
	}
	next := w.successor(files, others)
	v := w.valuesOf(next)
	now, err := render(w.template, "controller", v)
	if err != nil {
		return err
	}
	kept := false
	for i, f := range files {
		to := now[i]
		src, err := w.stage.read(f.name)
		if err != nil {
			return err
		}
		switch {
		case src == nil:
			kept = kept || w.stage.exists(to.name)
			continue
		case string(src) == string(f.data):
			w.stage.remove(f.name)
			if !w.stage.exists(to.name) {
				w.stage.write(to.name, to.data)
			}
		case w.uses(src, old):
			return fmt.Errorf("%s uses %s, but the controller remains for the kind's other versions: "+
				"change it to use one of them, or delete the file", f.name, r)
		case to.name != f.name:
			return fmt.Errorf("%s remains for the kind's other versions: move it to %s", f.name, to.name)
		}
		kept = true
	}
	if !kept {
		return nil // the user has deleted it
	}
	r.Controller, next.Controller = false, true
	if v.InGroup == old.InGroup {
		return nil
	}
	if err := w.removeController(old); err != nil {
		return err
	}
	return w.addController(v)
}

// successor returns the version that the PROJECT file records a kept controller for: the one that
// the controller uses already, or the storage version, or the first.
func (w *work) successor(controller []file, others []*Resource) *Resource {
	for _, o := range others {
		v := w.project.valuesOf(o)
		for _, f := range controller {
			if src, err := w.stage.read(f.name); err == nil && w.uses(src, v) {
				return o
			}
		}
	}
	if at := slices.IndexFunc(others, w.isStorage); at >= 0 {
		return others[at]
	}
	return others[0]
}

// uses reports whether a source uses the types of a version of a kind or, if its package has no
// other kinds, anything of the package.
func (w *work) uses(src []byte, v values) bool {
	if !w.sharesVersion(v) {
		return goedit.Uses(src, v.Path)
	}
	return goedit.Uses(src, v.Path, v.Kind, v.Kind+"List", v.Kind+"Spec", v.Kind+"Status")
}
