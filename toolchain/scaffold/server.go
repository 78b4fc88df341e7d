package scaffold

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"kelson.dev/toolchain/scaffold/goedit"
)

// serverLayout is the layout in the PROJECT files of custom API servers.
const serverLayout = "apiserver." + Layout

const (
	serverLibrary = "kelson.dev/apiserver"
	serverFile    = "internal/server/server.go"
)

var (
	partsCall = goedit.Call{Package: serverLibrary, Name: "Parts"}
	kindCall  = goedit.Call{Package: serverLibrary, Name: "Kind"}
)

// IsServer reports whether the project is a custom API server, not an operator.
func (p *Project) IsServer() bool { return len(p.Layout) == 1 && p.Layout[0] == serverLayout }

// base returns the template step of the project itself.
func (p *Project) base() string {
	if p.IsServer() {
		return "server-project"
	}
	return "project"
}

// servedKinds adds and deletes the kinds of a custom API server.
type servedKinds struct{ work *work }

// createServed adds a kind, or another version of a kind, to a custom API server. The first version
// is the hub; generated functions convert the others to and from it.
func (s servedKinds) createServed(api API) error {
	if api.Controller {
		return errors.New("--controller: the project is a custom API server: create controllers in a project of their own")
	}
	p := s.work.project
	r := p.Find(api.Group, api.Version, api.Kind)
	isNew := r == nil
	if isNew {
		r = &Resource{Group: api.Group, Version: api.Version, Kind: api.Kind, Domain: p.Domain, Plural: api.Plural,
			ClusterScoped: api.ClusterScoped}
	}
	if err := s.work.types().checkResource(r, api, isNew); err != nil || !isNew {
		return err
	}
	r.API, r.Path = true, cmp.Or(api.path, p.apiPath(r))
	v := s.work.valuesOf(r)
	if err := s.work.addFiles("server-types", v, api.Force); err != nil {
		return err
	}
	if err := s.work.types().createTypes("server-version", v); err != nil {
		return err
	}
	if hub := s.hub(r); hub != nil {
		if err := s.addVersion(v, p.valuesOf(hub)); err != nil {
			return err
		}
	} else if err := s.addKind(v, api.Force); err != nil {
		return err
	}
	if err := s.work.list("resources", s.servedLists(v)...); err != nil {
		return err
	}
	p.Resources = append(p.Resources, *r)
	return nil
}

// hub returns the version that others are converted to and from: the first one that was created. It
// is nil if r is the only version.
func (s servedKinds) hub(r *Resource) *Resource {
	if others := s.work.project.others(r); len(others) > 0 {
		first := others[0]
		if at := s.work.project.Find(r.Group, r.Version, r.Kind); at != nil && s.before(at, first) {
			return at
		}
		return first
	}
	return nil
}

// before reports whether a resource is listed before another in the PROJECT file.
func (s servedKinds) before(a, b *Resource) bool {
	for i := range s.work.project.Resources {
		switch &s.work.project.Resources[i] {
		case a:
			return true
		case b:
			return false
		}
	}
	return false
}

// addKind adds the rules of a kind, and the kind to the server.
func (s servedKinds) addKind(v values, force bool) error {
	if err := s.work.addFiles("server-kind", v, force); err != nil {
		return err
	}
	return s.work.stage.edit(serverFile, func(src []byte) ([]byte, error) {
		name, importPath := s.kindsImport(v)
		src, name, err := goedit.Import(src, name, importPath)
		if err != nil {
			return nil, err
		}
		if src, err = goedit.AddArgument(src, partsCall, kindsPart(name, v)); err != nil {
			return nil, fmt.Errorf("add %s to the call of apiserver.Parts: %w", kindsPart(name, v), err)
		}
		return src, nil
	})
}

// kindsImport returns the import of the package with the rules of a kind in server.go, where the
// name may be taken.
func (s servedKinds) kindsImport(v values) (name, importPath string) {
	importPath = path.Join(s.work.project.Repo, "internal/kinds", v.InGroup)
	if v.Kinds != path.Base(importPath) {
		name = v.Kinds
	}
	return name, importPath
}

func kindsPart(name string, v values) string { return name + "." + v.Kind + "Kind()" }

func kindsFile(v values) string { return v.fileName("internal/kinds/INGROUP/KIND.go") }

// addVersion adds a version to a kind whose hub exists.
func (s servedKinds) addVersion(v, hub values) error {
	target, err := s.work.stage.read(hub.typesDir() + "/groupversion_info.go")
	if err != nil {
		return err
	}
	if bytes.Contains(target, []byte(conversionMarker)) {
		return fmt.Errorf("%s %s is the hub of the kind, but its package converts to another one: create the versions of all kinds in the same order",
			hub.Version, hub.Kind)
	}
	err = s.work.stage.edit(v.typesDir()+"/groupversion_info.go", func(src []byte) ([]byte, error) {
		return addConversion(src, hub.Path)
	})
	if err != nil {
		return err
	}
	return s.work.stage.edit(kindsFile(hub), func(src []byte) ([]byte, error) {
		src, name, err := goedit.Import(src, v.Alias, v.Path)
		if err != nil {
			return nil, err
		}
		return goedit.AddArgument(src, kindCall, spokePart(name, v))
	})
}

func spokePart(name string, v values) string {
	return "apiserver.Version(&" + name + "." + v.Kind + "{})"
}

const (
	conversionMarker = "// +k8s:conversion-gen="
	generateMarker   = "// +kelson:generate="
	groupMarker      = "// +groupName="
)

// addConversion makes a package the spoke of a hub, which generates the conversions.
func addConversion(src []byte, hub string) ([]byte, error) {
	marker := conversionMarker + hub + "\n"
	if bytes.Contains(src, []byte(marker)) {
		return src, nil
	}
	if bytes.Contains(src, []byte(conversionMarker)) {
		return nil, fmt.Errorf("the package already converts to another hub, not to %s", hub)
	}
	before, after, ok := strings.Cut(string(src), groupMarker)
	if !ok {
		return nil, fmt.Errorf("the package's comment lacks %s", groupMarker)
	}
	if strings.Contains(before+after, generateMarker) {
		return []byte(before + marker + groupMarker + after), nil // the user lists the generators
	}
	return []byte(before + marker + generateMarker + "conversion\n" + groupMarker + after), nil
}

// removeConversion undoes addConversion.
func removeConversion(src []byte, hub string) ([]byte, error) {
	marker := conversionMarker + hub + "\n"
	text := strings.Replace(string(src), marker+generateMarker+"conversion\n", "", 1)
	return []byte(strings.Replace(text, marker, "", 1)), nil
}

// servedLists returns the kustomization entries of a version of a served kind, the outermost last.
func (s servedKinds) servedLists(v values) []listed {
	all := []listed{{"config/samples/kustomization.yaml", v.fileName("GROUP_VERSION_KIND.yaml")}}
	if !s.work.sharesVersion(v) {
		all = append(all, listed{"config/apiservice/kustomization.yaml", v.fileName("GROUP_VERSION.yaml")})
	}
	if v.versions(s.work.project) == 0 {
		all = append(all, listed{"config/rbac/kustomization.yaml", v.fileName("GROUP_KIND_roles.yaml")})
	}
	return append(all, listed{"config/default/kustomization.yaml", "../apiservice"})
}

// deleteServed removes a version of a kind from a custom API server.
func (s servedKinds) deleteServed(r *Resource, made []file) error {
	p := s.work.project
	v := s.work.valuesOf(r)
	others := v.versions(p)
	if hub := s.hub(r); others > 0 && hub == r {
		return fmt.Errorf("%s is the hub of the kind: delete its other versions first", r)
	} else if err := s.work.types().checkStorage(r); err != nil {
		return err
	} else if others > 0 {
		if err := s.removeVersion(v, p.valuesOf(hub)); err != nil {
			return err
		}
	} else if err := s.removeKind(v); err != nil {
		return err
	}
	for _, f := range made {
		s.work.drop(f.name)
	}
	if err := s.work.types().markStorage(r, false); err != nil {
		return err
	}
	if err := s.work.types().deleteTypes(v, !s.work.sharesVersion(v)); err != nil {
		return err
	}
	lists := s.servedLists(v)
	p.remove(r)
	if slices.ContainsFunc(p.Resources, func(o Resource) bool { return o.API }) {
		lists = slices.DeleteFunc(lists, func(l listed) bool { return l.item == "../apiservice" })
	}
	return s.work.unlist("resources", lists...)
}

// removeKind undoes the change of the server by addKind.
func (s servedKinds) removeKind(v values) error {
	return s.work.stage.edit(serverFile, func(src []byte) ([]byte, error) {
		_, importPath := s.kindsImport(v)
		src, err := goedit.RemoveArgument(src, partsCall, kindsPart(goedit.ImportName(src, importPath), v))
		if err != nil {
			return nil, err
		}
		return goedit.RemoveImport(src, importPath)
	})
}

// removeVersion undoes addVersion.
func (s servedKinds) removeVersion(v, hub values) error {
	err := s.work.stage.edit(kindsFile(hub), func(src []byte) ([]byte, error) {
		src, err := goedit.RemoveArgument(src, kindCall, spokePart(goedit.ImportName(src, v.Path), v))
		if err != nil {
			return nil, err
		}
		return goedit.RemoveImport(src, v.Path)
	})
	if err != nil {
		return err
	}
	for i := range s.work.project.Resources {
		o := &s.work.project.Resources[i]
		if o.Path == v.Path && o.Kind != v.Kind && s.hub(o) != nil && s.hub(o) != o {
			return nil // another kind of the package has the same hub
		}
	}
	return s.work.stage.edit(v.typesDir()+"/groupversion_info.go", func(src []byte) ([]byte, error) {
		return removeConversion(src, hub.Path)
	})
}
