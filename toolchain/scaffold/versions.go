package scaffold

import (
	"fmt"
	"slices"
)

// otherVersions returns the other versions of a kind whose types are in the project.
func (p *Project) otherVersions(r *Resource) []*Resource {
	return slices.DeleteFunc(p.others(r), func(o *Resource) bool { return !o.API })
}

// keepController keeps the controller of a kind for its other versions when r is deleted, and
// records it for one of them. It replaces files that are as the template made them with those for
// that version. It returns an error if the user has changed a file that uses r.
func (k operatorKinds) keepController(r *Resource) error {
	others := k.work.project.otherVersions(r)
	if !r.API || !r.Controller || len(others) == 0 {
		return nil
	}
	old := k.work.valuesOf(r)
	files, err := render(k.work.template, "controller", old)
	if err != nil {
		return err
	}
	next := k.successor(files, others)
	v := k.work.valuesOf(next)
	now, err := render(k.work.template, "controller", v)
	if err != nil {
		return err
	}
	kept := false
	for i, f := range files {
		to := now[i]
		src, err := k.work.stage.read(f.name)
		if err != nil {
			return err
		}
		switch {
		case src == nil:
			kept = kept || k.work.stage.exists(to.name)
			continue
		case string(src) == string(f.data):
			k.work.stage.remove(f.name)
			if !k.work.stage.exists(to.name) {
				k.work.stage.write(to.name, to.data)
			}
		case k.work.types().uses(src, old):
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
	if err := k.work.main().removeController(old); err != nil {
		return err
	}
	return k.work.main().addController(v)
}

// successor returns the version that the PROJECT file records a kept controller for: the one that
// the controller uses already, or the storage version, or the first.
func (k operatorKinds) successor(controller []file, others []*Resource) *Resource {
	for _, o := range others {
		v := k.work.project.valuesOf(o)
		for _, f := range controller {
			if src, err := k.work.stage.read(f.name); err == nil && k.work.types().uses(src, v) {
				return o
			}
		}
	}
	if at := slices.IndexFunc(others, k.work.types().isStorage); at >= 0 {
		return others[at]
	}
	return others[0]
}
