package toolchain

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kelson.dev/toolchain/gen/crd"
	"kelson.dev/toolchain/gen/deepcopy"
	"kelson.dev/toolchain/gen/rbac"
	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/gen/webhook"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/model"
)

// Generator is one kind of output.
type Generator struct {
	Name   string // as one asks for it
	Output string // where it writes, for people
	Doc    string
	// Default says that it runs unless others are asked for by name.
	Default bool

	emit func(*run)
}

// Generators are all there are, in the order in which they run.
func Generators() []Generator {
	return []Generator{
		{"object", "zz_generated.deepcopy.go", "DeepCopy, DeepCopyInto and DeepCopyObject methods.", true, (*run).object},
		{"crd", "config/crd/GROUP_PLURAL.yaml", "CustomResourceDefinitions, one file for each kind.", true, (*run).definitions},
		{"rbac", "config/rbac/role.yaml", "ClusterRoles and Roles.", true, (*run).roles},
		{"webhook", "config/webhook/manifests.yaml", "The configurations of admission webhooks.", true, (*run).webhooks},
		{"register", "zz_generated.register.go", "SchemeGroupVersion and AddToScheme.", false, (*run).registration},
		{"defaults", "zz_generated.defaults.go", "Functions that fill in what objects leave out, from +default markers and SetDefaults_ functions.", false, (*run).defaulting},
		{"conversion", "zz_generated.conversion.go and its test", "Functions between a version and its hub, and tests that they lose nothing.", false, (*run).conversions},
		{"applyconfiguration", "OUTPUT/applyconfiguration", "Types with optional fields, With and Extract functions, for server-side apply.", false, (*run).applyConfigurations},
		{"client", "OUTPUT/clientset", "Typed clients of the kinds marked +genclient, and fakes of them.", false, (*run).clients},
		{"lister", "OUTPUT/listers", "Listers of those kinds.", false, (*run).listers},
		{"openapi", "OUTPUT/openapi and zz_generated.model_name.go", "OpenAPI definitions.", false, (*run).definitionsOfOpenAPI},
		{"docs", "docs/api/GROUP.VERSION.md", "A reference of the API for its users.", false, (*run).documentation},
		{"informer", "OUTPUT/informers", "A factory of shared informers of those kinds.", false, (*run).informers},
	}
}

// selected finds generators by name; all if there are no names.
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
			return nil, fmt.Errorf("unknown generator %q; there are %s", n, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(g Generator) bool { return !slices.Contains(names, g.Name) }), nil
}

// run is one call of Generate.
type run struct {
	opts     Options
	ws       *loader.Workspace
	dir      string
	api      *model.API
	header   string
	out      output
	errs     []error
	warnings []error
	only     []*model.Package // those that the generator is to look at; nil is all
}

func (r *run) fail(errs ...error) { r.errs = append(r.errs, errs...) }

// packages are those that the generator at work is to look at.
func (r *run) packages() []*model.Package {
	if r.only != nil {
		return r.only
	}
	return r.api.Packages
}

// askedFor are the packages that name a generator with +kelson:generate.
func (r *run) askedFor(name string) []*model.Package {
	var found []*model.Package
	for _, p := range r.api.Packages {
		if slices.Contains(p.Asks(), name) {
			found = append(found, p)
		}
	}
	return found
}

// checkAsked reports generators that packages ask for and that do not exist.
func (r *run) checkAsked() {
	for _, p := range r.api.Packages {
		if m := p.Markers.Get("kelson:generate"); m != nil {
			if _, err := selected(p.Asks()); err != nil {
				r.fail(loader.Errorf(m.Pos, "+kelson:generate: %v", err))
			}
		}
	}
}

// file takes a file in a package's directory. Where there is nothing to generate any longer, what was generated before goes.
func (r *run) file(p *model.Package, name string, src []byte, err error) {
	name = filepath.Join(p.Dir, name)
	r.fail(err, r.out.add(name, src))
	if src == nil && err == nil {
		if was, err := os.ReadFile(name); err == nil && bytes.Contains(was, []byte(source.Generated)) {
			_, err = r.out.remove(name)
			r.fail(err)
		}
	}
}

func (r *run) object() {
	for _, p := range r.packages() {
		src, err := deepcopy.Generate(p, r.header)
		r.file(p, deepcopy.FileName, src, err)
	}
}

func (r *run) definitions() {
	crds := crd.New(r.api, r.definitionOptions())
	dir := definitionDir(r.dir)
	for _, res := range r.api.Resources {
		doc, note, err := crds.File(res)
		if note != nil {
			r.warnings = append(r.warnings, note)
		}
		r.fail(err, r.out.add(filepath.Join(dir, crd.FileName(res)), doc))
	}
	r.removeStale(crds, dir)
}

// definitionOptions are those of this call, and what packages ask for with +kelson:crd, which is for all of the project: its packages share
// types.
func (r *run) definitionOptions() crd.Options {
	opts := crd.Options{AllowFloats: r.opts.AllowFloats, EmbeddedObjectMeta: r.opts.EmbeddedObjectMeta, Descriptions: r.opts.Descriptions}
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
	roles, warnings := rbac.Roles(r.api, r.ws)
	r.warnings = append(r.warnings, warnings...)
	doc, err := rbac.YAML(roles)
	r.fail(err, r.out.add(filepath.Join(r.dir, "config", "rbac", rbac.FileName), doc))
}

func (r *run) webhooks() {
	configurations, err := webhook.Build(r.api)
	r.fail(err)
	doc, err := webhook.YAML(configurations)
	r.fail(err, r.out.add(filepath.Join(r.dir, "config", "webhook", webhook.FileName), doc))
}
