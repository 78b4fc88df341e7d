package scaffold

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"kelson.dev/toolchain/scaffold/goedit"
)

// API configures CreateAPI.
type API struct {
	Group, Version, Kind string
	Plural               string // "": the default, model.Plural of the kind
	ClusterScoped        bool
	Resource             bool // its Go types, definition, roles and sample
	Controller           bool // its controller, with a test
	Server               bool // fail unless the project is a custom API server
	Force                bool // overwrite existing files

	path string // import path of its Go types; "": the default
}

// ErrExists means that something with the same name but other content exists.
var ErrExists = errors.New("already exists")

// kubernetesGroups maps the API groups of Kubernetes that controllers can be created for to their
// domains.
var kubernetesGroups = map[string]string{
	"core": "", "apps": "", "autoscaling": "", "batch": "", "policy": "", "admissionregistration": "k8s.io",
	"certificates": "k8s.io",
	"coordination": "k8s.io", "discovery": "k8s.io", "events": "k8s.io", "networking": "k8s.io", "node": "k8s.io",
	"rbac":     "authorization.k8s.io",
	"resource": "k8s.io", "scheduling": "k8s.io", "storage": "k8s.io",
}

var (
	mainCall   = goedit.Call{Package: library, Name: "Main"}
	schemeCall = goedit.Call{Package: library, Name: "AddToScheme"}
	typesCall  = goedit.Call{Name: "AddKnownTypes"}
)

const (
	mainFile      = "cmd/main.go"
	storageMarker = "+kubebuilder:storageversion"
)

// CreateAPI adds a kind, or another version of a kind, to the project in a folder.
func CreateAPI(dir string, api API) ([]Change, error) {
	if err := checkNames(api.Group, api.Version, api.Kind, api.Plural); err != nil {
		return nil, err
	}
	if !api.Resource && !api.Controller {
		return nil, errors.New("nothing to create: set --resource or --controller")
	}
	w, err := open(dir)
	if err != nil {
		return nil, err
	}
	if api.Server && !w.project.IsServer() {
		return nil, errors.New("--apiserver: the project is an operator: create a custom API server with kelson init --plugin apiserver")
	}
	if err := w.createAPI(api); err != nil {
		return nil, err
	}
	return w.commit()
}

func (w *work) createAPI(api API) error {
	p := w.project
	if p.IsServer() {
		return w.createServed(api)
	}
	r := p.Find(api.Group, api.Version, api.Kind)
	isNew := r == nil
	if isNew {
		r = &Resource{Group: api.Group, Version: api.Version, Kind: api.Kind, Domain: p.Domain, Plural: api.Plural,
			ClusterScoped: api.ClusterScoped}
	}
	if api.Resource {
		if err := w.createResource(r, api, isNew); err != nil {
			return err
		}
	} else if !r.API && isNew {
		core, err := ofKubernetes(api.Group, api.Version, api.Kind)
		if err != nil {
			return err
		}
		*r = core
	}
	// All versions of a kind share one controller.
	controlled := slices.ContainsFunc(p.others(r), func(o *Resource) bool { return o.Controller })
	if api.Controller && !r.Controller && !controlled {
		if err := w.createController(r, api.Force); err != nil {
			return err
		}
		r.Controller = true
	}
	if isNew {
		p.Resources = append(p.Resources, *r)
	}
	return nil
}

// ofKubernetes returns a built-in kind of Kubernetes, whose types are in k8s.io/api.
func ofKubernetes(group, version, kind string) (Resource, error) {
	domain, known := kubernetesGroups[group]
	if !known {
		return Resource{}, fmt.Errorf("%s/%s %s is not in this project: add it with kelson create api", group, version,
			kind)
	}
	r := Resource{Group: group, Version: version, Kind: kind, Domain: domain, Core: true,
		Path: "k8s.io/api/" + group + "/" + version}
	if !scheme.Scheme.Recognizes(schema.GroupVersionKind{Group: qualifiedCore(&r), Version: version, Kind: kind}) {
		return r, fmt.Errorf("%s/%s %s is neither in this project nor in Kubernetes", group, version, kind)
	}
	return r, nil
}

// checkResource returns an error if the types of a kind cannot be created.
func (w *work) checkResource(r *Resource, api API, isNew bool) error {
	p := w.project
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
	return w.checkPath(r)
}

// checkPath returns an error if the package of a new kind cannot be where apiPath puts it.
func (w *work) checkPath(r *Resource) error {
	p := w.project
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

func (w *work) createResource(r *Resource, api API, isNew bool) error {
	if err := w.checkResource(r, api, isNew); err != nil || r.API {
		return err
	}
	r.API, r.Path = true, cmp.Or(api.path, w.project.apiPath(r))
	v := w.project.valuesOf(r)
	if err := w.addFiles("kind", v, api.Force); err != nil {
		return err
	}
	if err := w.createTypes("version", v); err != nil {
		return err
	}
	if err := w.addToScheme(v); err != nil {
		return err
	}
	if err := w.add("crds", v); err != nil {
		return err
	}
	return w.list("resources", w.lists(v)...)
}

// createTypes adds the package of a version, from a step of the template, and registers the types
// of the kind there.
func (w *work) createTypes(step string, v values) error {
	if err := w.add(step, v); err != nil {
		return err
	}
	if err := w.checkType(v); err != nil {
		return err
	}
	group := v.typesDir() + "/groupversion_info.go"
	for _, name := range []string{"&" + v.Kind + "{}", "&" + v.Kind + "List{}"} {
		if err := w.stage.edit(group, func(src []byte) ([]byte, error) {
			return goedit.AddArgument(src, typesCall, name)
		}); err != nil {
			return err
		}
	}
	return w.markStorage(&v.Resource, true)
}

// checkType returns an error if another file of the package declares the type.
func (w *work) checkType(v values) error {
	own := v.typesFile()
	for _, name := range w.stage.glob(v.typesDir() + "/*.go") {
		src, err := w.stage.read(name)
		if err != nil {
			return err
		}
		if name != own && goedit.HasType(src, v.Kind) {
			return fmt.Errorf("%s declares a type %s: %w", name, v.Kind, ErrExists)
		}
	}
	return nil
}

// addFiles adds the files of a step, which must not exist unless force is set.
func (w *work) addFiles(step string, v values, force bool) error {
	files, err := render(w.template, step, v)
	if err != nil {
		return err
	}
	shared := v.versions(w.project)
	for _, f := range files {
		if strings.HasPrefix(f.name, "config/rbac/") && shared > 0 && w.stage.exists(f.name) {
			continue // all versions share the roles
		}
		if old, err := w.stage.read(f.name); err != nil {
			return err
		} else if old != nil && !force && string(old) != string(f.data) {
			return fmt.Errorf("%s: %w (--force overwrites it)", f.name, ErrExists)
		}
		w.stage.write(f.name, f.data)
	}
	return nil
}

// versions returns the number of other versions of the kind whose types are in the project.
func (v *values) versions(p *Project) int {
	n := 0
	for _, o := range p.others(&v.Resource) {
		if o.API {
			n++
		}
	}
	return n
}

type listed struct{ file, item string }

// lists returns the kustomization entries of a kind, the outermost last.
func (w *work) lists(v values) []listed {
	all := []listed{{"config/samples/kustomization.yaml", v.fileName("GROUP_VERSION_KIND.yaml")}}
	if v.versions(w.project) > 0 {
		return all
	}
	all = append(all, listed{"config/crd/kustomization.yaml", "bases/" + definitionFile(v)})
	for _, role := range []string{"admin", "editor", "viewer"} {
		all = append(all, listed{"config/rbac/kustomization.yaml", v.fileName("GROUP_KIND_" + role + "_role.yaml")})
	}
	return append(all, listed{"config/default/kustomization.yaml", "../crd"})
}

// definitionFile returns the name of the generated CustomResourceDefinition file.
func definitionFile(v values) string { return v.Qualified + "_" + v.Many + ".yaml" }

// addToScheme adds the types to the operator's scheme.
func (w *work) addToScheme(v values) error {
	return w.stage.edit(mainFile, func(src []byte) ([]byte, error) {
		src, name, err := goedit.Import(src, v.Alias, v.Path)
		if err != nil {
			return nil, err
		}
		add := name + ".AddToScheme"
		if goedit.HasCall(src, schemeCall) {
			return goedit.AddArgument(src, schemeCall, add)
		}
		return w.addPart(src, "operator.AddToScheme("+add+")")
	})
}

// addPart adds a part to the call of operator.Main.
func (w *work) addPart(src []byte, part string) ([]byte, error) {
	src, err := goedit.AddArgument(src, mainCall, part)
	if err != nil {
		return nil, fmt.Errorf("add %s to the call of operator.Main: %w", part, err)
	}
	return src, nil
}

// markStorage marks the storage version of a kind with several versions: the first, unless the user
// has marked another.
func (w *work) markStorage(added *Resource, add bool) error {
	others := slices.DeleteFunc(w.project.others(added), func(o *Resource) bool { return !o.API })
	if add && len(others) != 1 || !add && len(others) != 1 {
		return nil
	}
	v := w.project.valuesOf(others[0])
	name := v.typesFile()
	if !w.stage.exists(name) {
		return nil
	}
	change := goedit.AddMarker
	if !add {
		change = goedit.RemoveMarker
	}
	return w.stage.edit(name, func(src []byte) ([]byte, error) { return change(src, v.Kind, storageMarker) })
}

// qualifiedCore returns the API group of a kind of Kubernetes; for pods it is "".
func qualifiedCore(r *Resource) string {
	if r.Group == "core" {
		return ""
	}
	return r.QualifiedGroup()
}
