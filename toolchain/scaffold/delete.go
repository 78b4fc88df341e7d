package scaffold

import (
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"

	"kelson.dev/toolchain/scaffold/goedit"
)

// DeleteAPI removes a version of a kind: everything that CreateAPI and CreateWebhook created for
// it. Without force it does not delete files that were changed and are not committed to git. A kind
// that does not exist is not an error.
//
// The controller of a kind with other versions remains; it must not use the version. One of the
// other versions must be the storage version.
func DeleteAPI(dir, group, version, kind string, force bool) ([]Change, error) {
	if err := checkNames(group, version, kind, ""); err != nil {
		return nil, err
	}
	w, err := open(dir)
	if err != nil {
		return nil, err
	}
	r := w.project.Find(group, version, kind)
	if r == nil {
		return nil, nil
	}
	if !w.project.IsServer() {
		if err := w.types().checkStorage(r); err != nil {
			return nil, err
		}
		if err := w.kinds().keepController(r); err != nil {
			return nil, err
		}
	}
	made, err := w.deletion().ownFiles(r)
	if err != nil {
		return nil, err
	}
	if !force {
		if err := w.deletion().guard(made); err != nil {
			return nil, err
		}
	}
	if err := w.kinds().deleteAPI(r, made); err != nil {
		return nil, err
	}
	return w.commit()
}

// deletion finds the files of a kind, and whether they have changes that would be lost.
type deletion struct{ work *work }

// ownFiles returns the files that belong only to the kind, with the content that the template gives
// them.
func (d deletion) ownFiles(r *Resource) ([]file, error) {
	v := d.work.valuesOf(r)
	var all []file
	step := func(name string) error {
		files, err := render(d.work.template, name, v)
		all = append(all, files...)
		return err
	}
	if d.work.project.IsServer() {
		if err := step("server-types"); err != nil {
			return nil, err
		}
		if v.versions(d.work.project) == 0 {
			return all, step("server-kind")
		}
		return all, nil
	}
	if r.API {
		if err := step("kind"); err != nil {
			return nil, err
		}
		if v.versions(d.work.project) > 0 {
			all = slices.DeleteFunc(all, func(f file) bool { return strings.HasPrefix(f.name, "config/rbac/") })
		}
	}
	if r.Controller && r.Core {
		if err := step("core"); err != nil {
			return nil, err
		}
	} else if r.Controller {
		if err := step("controller"); err != nil {
			return nil, err
		}
	}
	for name, made := range map[string]bool{
		"webhook": r.Webhooks.Defaulting || r.Webhooks.Validation, "defaulting": r.Webhooks.Defaulting,
		"validation": r.Webhooks.Validation,
		"hub":        r.Webhooks.Conversion, "conversion": r.Webhooks.Conversion,
	} {
		if made {
			if err := step(name); err != nil {
				return nil, err
			}
		}
	}
	for _, hub := range d.work.project.others(r) {
		if slices.Contains(hub.Webhooks.Spokes, r.Version) {
			hv := d.work.project.valuesOf(hub)
			v.HubAlias, v.HubPath = hv.Alias, hv.Path
			if err := step("spoke"); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// guard returns an error if a deletion would lose uncommitted changes.
func (d deletion) guard(made []file) error {
	var lost []string
	for _, f := range made {
		data, err := d.work.stage.onDisk(f.name)
		if err != nil {
			return err
		}
		if data == nil || string(d.plain(f.name, data)) == string(f.data) || d.committed(f.name) {
			continue
		}
		lost = append(lost, f.name)
	}
	if len(lost) > 0 {
		return fmt.Errorf("%s has uncommitted changes: commit them, or delete the file with --force",
			strings.Join(lost, ", "))
	}
	return nil
}

// plain returns a file without the additions of other commands.
func (d deletion) plain(name string, data []byte) []byte {
	if kind, ok := strings.CutSuffix(path.Base(name), "_types.go"); ok {
		for i := range d.work.project.Resources {
			if strings.ToLower(d.work.project.Resources[i].Kind) == kind {
				if without, err := goedit.RemoveMarker(data, d.work.project.Resources[i].Kind, storageMarker); err == nil {
					return without
				}
			}
		}
	}
	return data
}

// committed reports whether git has a commit with the file's current content.
func (d deletion) committed(name string) bool {
	status := exec.Command("git", "status", "--porcelain", "--ignored", "--", name)
	status.Dir = d.work.stage.dir
	out, err := status.Output()
	return err == nil && len(out) == 0
}

func (k operatorKinds) deleteAPI(r *Resource, made []file) error {
	p := k.work.project
	if p.IsServer() {
		return k.work.served().deleteServed(r, made)
	}
	v := p.valuesOf(r)
	for _, f := range made {
		if k.work.stage.exists(f.name) {
			k.work.stage.remove(f.name)
		}
	}
	if err := k.work.webhooks().deleteWebhooks(r); err != nil {
		return err
	}
	if r.Controller {
		if err := k.work.main().removeController(v); err != nil {
			return err
		}
	}
	if !r.API {
		p.remove(r)
		return nil
	}
	alone := !slices.ContainsFunc(p.Resources, func(o Resource) bool {
		return o.API && o.Path == r.Path && o.Kind != r.Kind
	})
	if err := k.work.types().deleteTypes(v, alone); err != nil {
		return err
	}
	if err := k.work.main().removeFromScheme(v, alone); err != nil {
		return err
	}
	if err := k.work.types().markStorage(r, false); err != nil {
		return err
	}
	lists := k.lists(v)
	if v.versions(p) == 0 {
		k.work.drop("config/crd/bases/" + definitionFile(v))
	}
	p.remove(r)
	ours := slices.ContainsFunc(p.Resources, func(o Resource) bool { return o.API })
	if !ours {
		k.work.drop("config/crd/bases/.gitkeep")
	}
	if ours {
		lists = slices.DeleteFunc(lists, func(l listed) bool { return l.item == "../crd" })
	}
	return k.work.unlist("resources", lists...)
}

// remove removes a resource from the PROJECT file.
func (p *Project) remove(r *Resource) {
	group, version, kind := r.Group, r.Version, r.Kind
	p.Resources = slices.DeleteFunc(p.Resources, func(o Resource) bool {
		return o.Group == group && o.Version == version && o.Kind == kind
	})
}
