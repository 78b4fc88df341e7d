package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// ProjectFile is the name of the file that marks a folder as a project.
const ProjectFile = "PROJECT"

// Layout is the layout in the PROJECT files of scaffolded projects.
const Layout = "kelson.dev/v1"

// settingsKey is the plugin key of Kelson's own settings in a PROJECT file.
const settingsKey = "scaffold." + Layout

// projectHeader is the comment at the top of a PROJECT file.
const projectHeader = "# The parts of this project that kelson scaffolded, in kubebuilder's format. kelson create, edit, delete and upgrade maintain this file.\n"

// Project is a PROJECT file in kubebuilder's format, version 3. Unknown fields are preserved.
type Project struct {
	Domain     string
	Name       string
	Repo       string // path of the Go module
	MultiGroup bool
	Layout     []string
	Resources  []Resource

	raw map[string]any
}

// Resource is a kind in a PROJECT file.
type Resource struct {
	Group, Version, Kind, Domain string
	Plural                       string // "": by the rules of English
	Path                         string // import path of its Go types
	API                          bool   // its types are the project's own
	ClusterScoped                bool
	Controller                   bool
	Core                         bool // a kind of Kubernetes
	Webhooks                     Webhooks

	// for a kind of Kubernetes that has files: whether they are in a folder of its group
	grouped *bool
	raw     map[string]any
}

// Webhooks lists the webhooks of a kind.
type Webhooks struct {
	Defaulting, Validation, Conversion bool
	Spokes                             []string // versions that are converted to and from this one
}

// None reports whether there are none.
func (w Webhooks) None() bool { return !w.Defaulting && !w.Validation && !w.Conversion }

// QualifiedGroup returns the group with its domain, as in apiVersion.
func (r *Resource) QualifiedGroup() string {
	return strings.Trim(r.Group+"."+r.Domain, ".")
}

func (r *Resource) String() string {
	return strings.Trim(r.QualifiedGroup()+"/"+r.Version, "/") + " " + r.Kind
}

// ErrNoProject means that a folder has no PROJECT file.
var ErrNoProject = errors.New("no PROJECT file: run the command in a project's folder, or create a project with kelson init")

// ReadProject reads the PROJECT file of a folder.
func ReadProject(dir string) (*Project, error) {
	data, err := os.ReadFile(filepath.Join(dir, ProjectFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoProject
	}
	if err != nil {
		return nil, err
	}
	return parseProject(data)
}

// VersionError means that a PROJECT file has a version that another tool, or an early kubebuilder,
// wrote.
type VersionError struct{ Version string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("PROJECT: version %q: only version \"3\" is known", e.Version)
}

func parseProject(data []byte) (*Project, error) {
	raw := map[string]any{}
	if err := yaml.UnmarshalStrict(data, &raw); err != nil {
		return nil, fmt.Errorf("PROJECT: %w", err)
	}
	if v := text(raw, "version"); v != "3" {
		return nil, &VersionError{v}
	}
	p := &Project{raw: raw, Domain: text(raw, "domain"), Name: text(raw, "projectName"), Repo: text(raw, "repo"),
		MultiGroup: flag(raw, "multigroup")}
	p.Layout = texts(raw, "layout")
	list, _ := raw["resources"].([]any)
	for i, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("PROJECT: resources[%d] is not an object", i)
		}
		r := Resource{raw: m, Group: text(m, "group"), Version: text(m, "version"), Kind: text(m, "kind"),
			Domain: text(m, "domain"),
			Plural: text(m, "plural"), Path: text(m, "path"), Controller: flag(m, "controller"), Core: flag(m, "core")}
		if api, ok := m["api"].(map[string]any); ok {
			r.API, r.ClusterScoped = true, !flag(api, "namespaced")
		}
		if w, ok := m["webhooks"].(map[string]any); ok {
			r.Webhooks = Webhooks{Defaulting: flag(w, "defaulting"), Validation: flag(w, "validation"),
				Conversion: flag(w, "conversion"), Spokes: texts(w, "spoke")}
		}
		p.Resources = append(p.Resources, r)
	}
	return p, nil
}

// Marshal encodes the file.
func (p *Project) Marshal() ([]byte, error) {
	raw := p.raw
	if raw == nil {
		raw = map[string]any{}
	}
	raw["version"] = "3"
	put(raw, "domain", p.Domain, p.Domain != "")
	put(raw, "projectName", p.Name, p.Name != "")
	put(raw, "repo", p.Repo, p.Repo != "")
	put(raw, "multigroup", true, p.MultiGroup)
	put(raw, "layout", p.Layout, len(p.Layout) > 0)
	var list []any
	for i := range p.Resources {
		list = append(list, p.Resources[i].marshal())
	}
	put(raw, "resources", list, len(list) > 0)
	data, err := yaml.Marshal(raw)
	return append([]byte(projectHeader), data...), err
}

func (r *Resource) marshal() map[string]any {
	m := r.raw
	if m == nil {
		m = map[string]any{}
	}
	put(m, "group", r.Group, r.Group != "")
	put(m, "version", r.Version, true)
	put(m, "kind", r.Kind, true)
	put(m, "domain", r.Domain, r.Domain != "")
	put(m, "plural", r.Plural, r.Plural != "")
	put(m, "path", r.Path, r.Path != "")
	put(m, "controller", true, r.Controller)
	put(m, "core", true, r.Core)
	api := within(m, "api")
	put(api, "crdVersion", "v1", true)
	put(api, "namespaced", true, !r.ClusterScoped)
	put(m, "api", api, r.API)
	w := within(m, "webhooks")
	put(w, "webhookVersion", "v1", true)
	put(w, "defaulting", true, r.Webhooks.Defaulting)
	put(w, "validation", true, r.Webhooks.Validation)
	put(w, "conversion", true, r.Webhooks.Conversion)
	put(w, "spoke", r.Webhooks.Spokes, len(r.Webhooks.Spokes) > 0)
	put(m, "webhooks", w, !r.Webhooks.None())
	return m
}

// Find returns the resource of a group, version and kind, or nil.
func (p *Project) Find(group, version, kind string) *Resource {
	i := slices.IndexFunc(p.Resources, func(r Resource) bool {
		return r.Group == group && r.Version == version && r.Kind == kind
	})
	if i < 0 {
		return nil
	}
	return &p.Resources[i]
}

// others returns the other versions of a kind.
func (p *Project) others(resource *Resource) []*Resource {
	var all []*Resource
	for i := range p.Resources {
		if r := &p.Resources[i]; r.Group == resource.Group && r.Kind == resource.Kind && r.Version != resource.Version {
			all = append(all, r)
		}
	}
	return all
}

// template returns the template version of the project's files, or 0 if the file has none.
func (p *Project) template() int {
	plugins, _ := p.raw["plugins"].(map[string]any)
	settings, _ := plugins[settingsKey].(map[string]any)
	switch n := settings["template"].(type) {
	case int:
		return n
	case int64:
		return int(n)
	case float64:
		return int(n)
	}
	return 0
}

func (p *Project) setTemplate(version int) {
	if p.raw == nil {
		p.raw = map[string]any{}
	}
	plugins := within(p.raw, "plugins")
	settings := within(plugins, settingsKey)
	settings["template"] = version
	plugins[settingsKey], p.raw["plugins"] = settings, plugins
}

func text(m map[string]any, key string) string { s, _ := m[key].(string); return s }
func flag(m map[string]any, key string) bool   { b, _ := m[key].(bool); return b }

// texts reads a list of strings, or a single string as a list.
func texts(m map[string]any, key string) []string {
	switch v := m[key].(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, item := range v {
			if s, ok := item.(string); ok {
				all = append(all, s)
			}
		}
		return all
	}
	return nil
}

func within(m map[string]any, key string) map[string]any {
	if inner, ok := m[key].(map[string]any); ok {
		return inner
	}
	return map[string]any{}
}

// put sets a key, or removes it if say is false.
func put(m map[string]any, key string, value any, say bool) {
	if say {
		m[key] = value
	} else {
		delete(m, key)
	}
}
