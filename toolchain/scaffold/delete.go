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
		if err := w.checkStorage(r); err != nil {
			return nil, err
		}
		if err := w.keepController(r); err != nil {
			return nil, err
		}
	}
	made, err := w.ownFiles(r)
	if err != nil {
		return nil, err
	}
	if !force {
		if err := w.guard(made); err != nil {
			return nil, err
		}
	}
	if err := w.deleteAPI(r, made); err != nil {
		return nil, err
	}
	return w.commit()
}

// ownFiles returns the files that belong only to the kind, with the content that the template gives
// them.
func (w *work) ownFiles(r *Resource) ([]file, error) {
	v := w.valuesOf(r)
	var all []file
	step := func(name string) error {
		files, err := render(w.template, name, v)
		all = append(all, files...)
		return err
	}
	if w.project.IsServer() {
		if err := step("server-types"); err != nil {
			return nil, err
		}
		if v.versions(w.project) == 0 {
			return all, step("server-kind")
		}
		return all, nil
	}
	if r.API {
		if err := step("kind"); err != nil {
			return nil, err
		}
		if v.versions(w.project) > 0 {
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
	for _, hub := range w.project.others(r) {
		if slices.Contains(hub.Webhooks.Spokes, r.Version) {
			hv := w.project.valuesOf(hub)
			v.HubAlias, v.HubPath = hv.Alias, hv.Path
			if err := step("spoke"); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// guard returns an error if a deletion would lose uncommitted changes.
func (w *work) guard(made []file) error {
	var lost []string
	for _, f := range made {
		data, err := w.stage.onDisk(f.name)
		if err != nil {
			return err
		}
		if data == nil || string(w.plain(f.name, data)) == string(f.data) || w.committed(f.name) {
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
func (w *work) plain(name string, data []byte) []byte {
	if kind, ok := strings.CutSuffix(path.Base(name), "_types.go"); ok {
		for i := range w.project.Resources {
			if strings.ToLower(w.project.Resources[i].Kind) == kind {
				if without, err := goedit.RemoveMarker(data, w.project.Resources[i].Kind, storageMarker); err == nil {
					return without
				}
			}
		}
	}
	return data
}

// committed reports whether git has a commit with the file's current content.
func (w *work) committed(name string) bool {
	status := exec.Command("git", "status", "--porcelain", "--ignored", "--", name)
	status.Dir = w.stage.dir
	out, err := status.Output()
	return err == nil && len(out) == 0
}

func (w *work) deleteAPI(r *Resource, made []file) error {
	p := w.project
	if p.IsServer() {
		return w.deleteServed(r, made)
	}
	v := p.valuesOf(r)
	for _, f := range made {
		if w.stage.exists(f.name) {
			w.stage.remove(f.name)
		}
	}
	if err := w.deleteWebhooks(r); err != nil {
		return err
	}
	if r.Controller {
		if err := w.removeController(v); err != nil {
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
	if err := w.deleteTypes(v, alone); err != nil {
		return err
	}
	if err := w.removeFromScheme(v, alone); err != nil {
		return err
	}
	if err := w.markStorage(r, false); err != nil {
		return err
	}
	lists := w.lists(v)
	if v.versions(p) == 0 {
		w.drop("config/crd/bases/" + definitionFile(v))
	}
	p.remove(r)
	ours := slices.ContainsFunc(p.Resources, func(o Resource) bool { return o.API })
	if !ours {
		w.drop("config/crd/bases/.gitkeep")
	}
	if ours {
		lists = slices.DeleteFunc(lists, func(l listed) bool { return l.item == "../crd" })
	}
	return w.unlist("resources", lists...)
}

// deleteTypes removes the package of a version if the kind is alone there, or else the registration
// of its types.
func (w *work) deleteTypes(v values, alone bool) error {
	group := v.typesDir() + "/groupversion_info.go"
	if alone {
		w.drop(group)
		w.drop(v.fileName("config/apiservice/GROUP_VERSION.yaml"))
		for _, name := range w.stage.glob(v.typesDir() + "/zz_generated.*") {
			w.stage.remove(name)
		}
		return nil
	}
	for _, name := range []string{"&" + v.Kind + "{}", "&" + v.Kind + "List{}"} {
		if err := w.stage.edit(group, func(src []byte) ([]byte, error) {
			return goedit.RemoveArgument(src, typesCall, name)
		}); err != nil {
			return err
		}
	}
	return nil
}

// drop removes a file if it exists.
func (w *work) drop(name string) {
	if w.stage.exists(name) {
		w.stage.remove(name)
	}
}

func (w *work) removeFromScheme(v values, alone bool) error {
	if !alone {
		return nil
	}
	return w.stage.edit(mainFile, func(src []byte) ([]byte, error) {
		src, err := goedit.RemoveArgument(src, schemeCall, goedit.ImportName(src, v.Path)+".AddToScheme")
		if err != nil {
			return nil, err
		}
		args, err := goedit.Arguments(src, schemeCall)
		if err != nil {
			return nil, err
		}
		if len(args) == 0 {
			if src, err = goedit.RemoveArgument(src, mainCall, "operator.AddToScheme()"); err != nil {
				return nil, err
			}
		}
		return goedit.RemoveImport(src, v.Path)
	})
}

// remove removes a resource from the PROJECT file.
func (p *Project) remove(r *Resource) {
	group, version, kind := r.Group, r.Version, r.Kind
	p.Resources = slices.DeleteFunc(p.Resources, func(o Resource) bool {
		return o.Group == group && o.Version == version && o.Kind == kind
	})
}
