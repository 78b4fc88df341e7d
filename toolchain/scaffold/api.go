package scaffold

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

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
	if err := w.kinds().createAPI(api); err != nil {
		return nil, err
	}
	return w.commit()
}

// operatorKinds adds and deletes the kinds of an operator and their controllers.
type operatorKinds struct{ work *work }

func (k operatorKinds) createAPI(api API) error {
	p := k.work.project
	if p.IsServer() {
		return k.work.served().createServed(api)
	}
	r := p.Find(api.Group, api.Version, api.Kind)
	isNew := r == nil
	if isNew {
		r = &Resource{Group: api.Group, Version: api.Version, Kind: api.Kind, Domain: p.Domain, Plural: api.Plural,
			ClusterScoped: api.ClusterScoped}
	}
	if api.Resource {
		if err := k.createResource(r, api, isNew); err != nil {
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
		if err := k.createController(r, api.Force); err != nil {
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

func (k operatorKinds) createResource(r *Resource, api API, isNew bool) error {
	if err := k.work.types().checkResource(r, api, isNew); err != nil || r.API {
		return err
	}
	r.API, r.Path = true, cmp.Or(api.path, k.work.project.apiPath(r))
	v := k.work.project.valuesOf(r)
	if err := k.work.addFiles("kind", v, api.Force); err != nil {
		return err
	}
	if err := k.work.types().createTypes("version", v); err != nil {
		return err
	}
	if err := k.work.main().addToScheme(v); err != nil {
		return err
	}
	if err := k.work.add("crds", v); err != nil {
		return err
	}
	return k.work.list("resources", k.lists(v)...)
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

// lists returns the kustomization entries of a kind, the outermost last.
func (k operatorKinds) lists(v values) []listed {
	all := []listed{{"config/samples/kustomization.yaml", v.fileName("GROUP_VERSION_KIND.yaml")}}
	if v.versions(k.work.project) > 0 {
		return all
	}
	all = append(all, listed{"config/crd/kustomization.yaml", "bases/" + definitionFile(v)})
	for _, role := range []string{"admin", "editor", "viewer"} {
		all = append(all, listed{"config/rbac/kustomization.yaml", v.fileName("GROUP_KIND_" + role + "_role.yaml")})
	}
	return append(all, listed{"config/default/kustomization.yaml", "../crd"})
}

// createController adds the controller of a kind, with a test.
func (k operatorKinds) createController(r *Resource, force bool) error {
	v := k.work.valuesOf(r)
	step := "controller"
	if r.Core {
		step = "core"
	}
	if err := k.work.addFiles(step, v, force); err != nil {
		return err
	}
	return k.work.main().addController(v)
}

// definitionFile returns the name of the generated CustomResourceDefinition file.
func definitionFile(v values) string { return v.Qualified + "_" + v.Many + ".yaml" }

// qualifiedCore returns the API group of a kind of Kubernetes; for pods it is "".
func qualifiedCore(r *Resource) string {
	if r.Group == "core" {
		return ""
	}
	return r.QualifiedGroup()
}
