package scaffold

import (
	"errors"
	"fmt"
	"slices"

	"kelson.dev/toolchain/scaffold/goedit"
)

// apiTypes edits the packages of Go types, which operators and custom API servers have alike.
type apiTypes struct{ work *work }

// checkResource returns an error if the types of a kind cannot be created.
func (t apiTypes) checkResource(r *Resource, api API, isNew bool) error {
	p := t.work.project
	if r.API {
		if r.ClusterScoped != api.ClusterScoped || api.Plural != "" && r.Plural != api.Plural {
			return fmt.Errorf("%s: %w with another scope or plural: delete it first", r, ErrExists)
		}
		return nil
	}
	if !isNew {
		return fmt.Errorf("%s: %w as a kind from outside this project", r, ErrExists)
	}
	for _, other := range p.others(r) {
		if other.API && (other.ClusterScoped != api.ClusterScoped || other.Plural != api.Plural) {
			return fmt.Errorf("%s: %w with another scope or plural, which all versions of a kind share", other,
				ErrExists)
		}
	}
	for i := range p.Resources {
		o := &p.Resources[i]
		if o.API && o.Group != r.Group && !p.MultiGroup && api.path == "" {
			return fmt.Errorf("the project already has API group %q: to add another, run kelson edit --multigroup",
				o.Group)
		}
		if o.QualifiedGroup() == r.QualifiedGroup() && o.Kind != r.Kind && p.valuesOf(o).Many == p.valuesOf(r).Many {
			return fmt.Errorf("the plural of %s, %s, is already the plural of %s: set another with --plural", r.Kind,
				p.valuesOf(r).Many, o.Kind)
		}
	}
	if r.QualifiedGroup() == "" {
		return errors.New("--group is required, because the project has no domain")
	}
	if api.path != "" {
		return nil
	}
	return t.checkPath(r)
}

// checkPath returns an error if the package of a new kind cannot be where apiPath puts it.
func (t apiTypes) checkPath(r *Resource) error {
	p := t.work.project
	importPath := p.apiPath(r)
	for i := range p.Resources {
		if o := &p.Resources[i]; o.API && o.Path == importPath && o.Group != r.Group {
			return fmt.Errorf("%s already has the kinds of API group %q", importPath, o.Group)
		}
	}
	if importPath != p.ungroupedPath(r) && (r.Group == "testdata" || r.Group == "vendor") {
		return fmt.Errorf("--group %q: Go ignores packages in folders with this name", r.Group)
	}
	return nil
}

// createTypes adds the package of a version, from a step of the template, and registers the types
// of the kind there.
func (t apiTypes) createTypes(step string, v values) error {
	if err := t.work.add(step, v); err != nil {
		return err
	}
	if err := t.checkType(v); err != nil {
		return err
	}
	group := v.typesDir() + "/groupversion_info.go"
	for _, name := range []string{"&" + v.Kind + "{}", "&" + v.Kind + "List{}"} {
		if err := t.work.stage.edit(group, func(src []byte) ([]byte, error) {
			return goedit.AddArgument(src, typesCall, name)
		}); err != nil {
			return err
		}
	}
	return t.markStorage(&v.Resource, true)
}

// checkType returns an error if another file of the package declares the type.
func (t apiTypes) checkType(v values) error {
	own := v.typesFile()
	for _, name := range t.work.stage.glob(v.typesDir() + "/*.go") {
		src, err := t.work.stage.read(name)
		if err != nil {
			return err
		}
		if name != own && goedit.HasType(src, v.Kind) {
			return fmt.Errorf("%s declares a type %s: %w", name, v.Kind, ErrExists)
		}
	}
	return nil
}

// markStorage marks the storage version of a kind with several versions: the first, unless the user
// has marked another.
func (t apiTypes) markStorage(added *Resource, add bool) error {
	others := slices.DeleteFunc(t.work.project.others(added), func(o *Resource) bool { return !o.API })
	if add && len(others) != 1 || !add && len(others) != 1 {
		return nil
	}
	v := t.work.project.valuesOf(others[0])
	name := v.typesFile()
	if !t.work.stage.exists(name) {
		return nil
	}
	change := goedit.AddMarker
	if !add {
		change = goedit.RemoveMarker
	}
	return t.work.stage.edit(name, func(src []byte) ([]byte, error) { return change(src, v.Kind, storageMarker) })
}

// deleteTypes removes the package of a version if the kind is alone there, or else the registration
// of its types.
func (t apiTypes) deleteTypes(v values, alone bool) error {
	group := v.typesDir() + "/groupversion_info.go"
	if alone {
		t.work.drop(group)
		t.work.drop(v.fileName("config/apiservice/GROUP_VERSION.yaml"))
		for _, name := range t.work.stage.glob(v.typesDir() + "/zz_generated.*") {
			t.work.stage.remove(name)
		}
		return nil
	}
	for _, name := range []string{"&" + v.Kind + "{}", "&" + v.Kind + "List{}"} {
		if err := t.work.stage.edit(group, func(src []byte) ([]byte, error) {
			return goedit.RemoveArgument(src, typesCall, name)
		}); err != nil {
			return err
		}
	}
	return nil
}

// checkStorage returns an error if several versions of a kind remain without r, but none of them is
// the storage version. A version that remains alone is the storage version without a marker.
func (t apiTypes) checkStorage(r *Resource) error {
	others := t.work.project.otherVersions(r)
	if len(others) < 2 || !r.API || !t.isStorage(r) || slices.ContainsFunc(others, t.isStorage) {
		return nil
	}
	v := t.work.project.valuesOf(others[0])
	return fmt.Errorf("%s is the storage version of the kind, which has %d other versions: first put the marker %s on one of them, for example in %s",
		r, len(others), storageMarker, v.typesFile())
}

// isStorage reports whether a version of a kind has the marker of the storage version.
func (t apiTypes) isStorage(r *Resource) bool {
	v := t.work.project.valuesOf(r)
	return slices.ContainsFunc(t.work.stage.glob(v.typesDir()+"/*.go"), func(name string) bool {
		src, err := t.work.stage.read(name)
		return err == nil && goedit.HasMarker(src, r.Kind, storageMarker)
	})
}

// uses reports whether a source uses the types of a version of a kind or, if its package has no
// other kinds, anything of the package.
func (t apiTypes) uses(src []byte, v values) bool {
	if !t.work.sharesVersion(v) {
		return goedit.Uses(src, v.Path)
	}
	return goedit.Uses(src, v.Path, v.Kind, v.Kind+"List", v.Kind+"Spec", v.Kind+"Status")
}
