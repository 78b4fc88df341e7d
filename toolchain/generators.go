package toolchain

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kelson.dev/toolchain/gen/crd"
	"kelson.dev/toolchain/gen/deepcopy"
	"kelson.dev/toolchain/gen/lifecycle"
	"kelson.dev/toolchain/gen/rbac"
	"kelson.dev/toolchain/gen/register"
	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/gen/webhook"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/model"
)

// Generator produces one kind of output.
type Generator struct {
	Name   string // in Options.Generators and +kelson:generate
	Output string // the files that it writes, for documentation
	Doc    string
	// Default means that it runs unless Options.Generators names others.
	Default bool

	emit func(*run)
}

// forServers are the generators that also run for the packages of custom API servers.
var forServers = []string{"validation", "lifecycle", "schema"}

// ForServers reports whether the generator also runs for the packages of custom API servers.
func (g Generator) ForServers() bool { return slices.Contains(forServers, g.Name) }

// Generators returns all generators in the order in which they run.
func Generators() []Generator {
	return []Generator{
		{"object", "zz_generated.deepcopy.go", "DeepCopy, DeepCopyInto and DeepCopyObject methods.", true,
			perPackage(deepcopy.FileName, deepcopy.Generate)},
		{"crd", "config/crd/GROUP_PLURAL.yaml", "CustomResourceDefinitions, one file for each kind.", true,
			(*run).definitions},
		{"rbac", "config/rbac/role.yaml", "ClusterRoles and Roles.", true, (*run).roles},
		{"webhook", "config/webhook/manifests.yaml", "Configurations of admission webhooks.", true, (*run).webhooks},
		{"register", "zz_generated.register.go", "SchemeGroupVersion and AddToScheme.", false,
			perPackage(register.FileName, register.Generate)},
		{"defaults", "zz_generated.defaults.go",
			"Defaulting functions, from +default markers and SetDefaults_ functions.", false, (*run).defaulting},
		{"conversion", "zz_generated.conversion.go and its test",
			"Conversion functions between a version and its hub, and round-trip tests.", false, (*run).conversions},
		{"protobuf", "zz_generated.protobuf.go, zz_generated.protobuf.lock and generated.proto",
			"Marshal and Unmarshal methods for protobuf, with Kubernetes' wire format.", false, (*run).protobufs},
		{"validation", "zz_generated.validation.go", "Validation functions, from +k8s: markers.", false,
			(*run).validations},
		{"lifecycle", "zz_generated.prerelease-lifecycle.go",
			"Methods with the releases that introduce, deprecate and remove a kind.", false,
			perPackage(lifecycle.FileName, lifecycle.Generate)},
		{"schema", "zz_generated.schema.go", "Descriptions of types and fields, and how lists merge, for custom API servers.", false, (*run).schemas},
		{"applyconfiguration", "OUTPUT/applyconfiguration",
			"Apply configurations: types with optional fields, With and Extract functions.", false,
			(*run).applyConfigurations},
		{"client", "OUTPUT/clientset", "Typed clients for the kinds marked +genclient, and fakes.", false,
			(*run).clients},
		{"lister", "OUTPUT/listers", "Listers for the kinds marked +genclient.", false, (*run).listers},
		{"openapi", "OUTPUT/openapi and zz_generated.model_name.go", "OpenAPI definitions.", false,
			(*run).definitionsOfOpenAPI},
		{"docs", "docs/api/GROUP.VERSION.md", "API reference documentation.", false, (*run).documentation},
		{"informer", "OUTPUT/informers", "A factory of shared informers for the kinds marked +genclient.", false,
			(*run).informers},
	}
}

// selected returns the named generators, or all if there are no names.
func selected(names []string) ([]Generator, error) {
	all := Generators()
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, g := range all {
		known = append(known, g.Name)
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("unknown generator %q; known generators: %s", n, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(g Generator) bool { return !slices.Contains(names, g.Name) }), nil
}

// run is the state of one call of Generate.
type run struct {
	opts     Options
	ws       *loader.Workspace
	dir      string
	api      *model.API
	header   string
	out      output
	errs     []error
	warnings []error
	only     []*model.Package // the packages of the current generator; nil means all
}

func (r *run) fail(errs ...error) { r.errs = append(r.errs, errs...) }

// mistake records an error that controller-gen ignores: a warning if Options.Lenient is set.
func (r *run) mistake(errs ...error) {
	if !r.opts.Lenient {
		r.fail(errs...)
		return
	}
	for _, err := range errs {
		if list, ok := err.(interface{ Unwrap() []error }); ok {
			r.mistake(list.Unwrap()...)
		} else if err != nil {
			r.warnings = append(r.warnings, err)
		}
	}
}

// packages returns the packages that the current generator processes.
func (r *run) packages() []*model.Package {
	if r.only != nil {
		return r.only
	}
	return r.api.Packages
}

// askedFor returns the packages that request a generator with +kelson:generate, or for which it
// runs because a custom API server serves their kinds.
func (r *run) askedFor(name string) []*model.Package {
	servers := slices.Contains(forServers, name)
	var found []*model.Package
	for _, p := range r.api.Packages {
		if slices.Contains(p.Asks(), name) || servers && p.Served() {
			found = append(found, p)
		}
	}
	return found
}

// checkAsked reports generators that packages request but that do not exist.
func (r *run) checkAsked() {
	for _, p := range r.api.Packages {
		if m := p.Markers.Get("kelson:generate"); m != nil {
			if _, err := selected(p.Asks()); err != nil {
				r.fail(loader.Errorf(m.Pos, "+kelson:generate: %v", err))
			}
		}
	}
}

// file records a generated file in a package's directory. If src is nil, it removes the file that
// an earlier run generated.
func (r *run) file(p *model.Package, name string, src []byte, err error) {
	name = filepath.Join(p.Dir, name)
	r.fail(err, r.out.add(name, src))
	if rel, err := filepath.Rel(r.dir, name); err == nil {
		r.out.packages[filepath.ToSlash(rel)] = p.Package
	}
	if src == nil && err == nil {
		if was, err := os.ReadFile(name); err == nil && bytes.Contains(was, []byte(source.Generated)) {
			_, err = r.out.remove(name)
			r.fail(err)
		}
	}
}

// perPackage returns a generator that writes one file for each package.
func perPackage(name string, generate func(p *model.Package, header string) ([]byte, error)) func(*run) {
	return func(r *run) {
		for _, p := range r.packages() {
			src, err := generate(p, r.header)
			r.file(p, name, src, err)
		}
	}
}

func (r *run) definitions() {
	crds := crd.New(r.api, r.definitionOptions())
	dir := r.manifestDir("crd", definitionDir(r.dir))
	for _, res := range r.api.Resources {
		if r.served(res) {
			continue
		}
		name := filepath.Join(dir, crd.FileName(res))
		if version := annotation(r.out.destination(name)); version != "" {
			noted := *res
			noted.Annotations = maps.Clone(res.Annotations)
			if noted.Annotations == nil {
				noted.Annotations = map[string]string{}
			}
			noted.Annotations[versionAnnotation] = version
			res = &noted
		}
		doc, note, err := crds.File(res)
		if note != nil {
			r.warnings = append(r.warnings, note)
		}
		r.fail(err, r.out.add(name, r.headed("crd", doc)))
	}
	r.warnings = append(r.warnings, crds.Warnings()...)
	if len(r.opts.Paths) == 0 {
		r.removeStale(crds, dir)
	}
}

// served reports whether a custom API server serves a kind, which then needs no
// CustomResourceDefinition.
func (r *run) served(res *model.Resource) bool {
	served := 0
	for _, v := range res.Versions {
		if v.Package.Served() {
			served++
		}
	}
	if served > 0 && served < len(res.Versions) {
		r.fail(loader.Errorf(res.Versions[0].Root.Pos(),
			"%s has versions with and without +kelson:crd:generate=false; all packages of a kind need it", res.Kind))
	}
	return served > 0
}

// definitionOptions returns the options of this call, merged with those of +kelson:crd. A
// +kelson:crd in one package applies to the whole project, because packages share types.
func (r *run) definitionOptions() crd.Options {
	opts := crd.Options{AllowFloats: r.opts.AllowFloats, EmbeddedObjectMeta: r.opts.EmbeddedObjectMeta,
		Lenient: r.opts.Lenient, Descriptions: r.opts.Descriptions}
	for _, p := range r.api.Packages {
		m := p.Markers.Get("kelson:crd")
		if m == nil {
			continue
		}
		if yes := m.Bool("allowDangerousTypes"); yes != nil && *yes {
			opts.AllowFloats = true
		}
		if yes := m.Bool("generateEmbeddedObjectMeta"); yes != nil && *yes {
			opts.EmbeddedObjectMeta = true
		}
		if m.Has("maxDescLen") && opts.Descriptions.PerField == 0 {
			if opts.Descriptions.PerField = int(m.Int("maxDescLen")); opts.Descriptions.PerField == 0 {
				opts.Descriptions.PerField = -1
			}
		}
	}
	return opts
}

func (r *run) roles() {
	set := r.opts.Settings["rbac"]
	roles, warnings := rbac.Roles(r.api, r.ws, cmp.Or(set.RoleName, rbac.DefaultRole))
	r.warnings = append(r.warnings, warnings...)
	doc, err := rbac.YAML(roles)
	name := rbac.FileName
	if set.FileName != "" {
		name = set.FileName
	}
	r.fail(err, r.out.add(filepath.Join(r.manifestDir("rbac", "config/rbac"), name), r.headed("rbac", doc)))
}

func (r *run) webhooks() {
	configurations, err := webhook.Build(r.api)
	r.fail(err)
	doc, err := webhook.YAML(configurations)
	r.fail(err, r.out.add(filepath.Join(r.manifestDir("webhook", "config/webhook"), webhook.FileName),
		r.headed("webhook", doc)))
}
