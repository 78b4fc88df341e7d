package scaffold

import (
	"fmt"
	"go/token"
	"path"
	"regexp"
	"strings"

	"golang.org/x/mod/module"
	"k8s.io/apimachinery/pkg/util/validation"

	"kelson.dev/toolchain/model"
)

var versionPattern = regexp.MustCompile(`^v\d+(alpha\d+|beta\d+)?$`)

func checkDomain(domain string) error {
	if errs := validation.IsDNS1123Subdomain(domain); len(errs) > 0 {
		return fmt.Errorf("--domain %q is not a domain name: %s", domain, errs[0])
	}
	return nil
}

func checkProjectName(name string) error {
	if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
		return fmt.Errorf("project name %q cannot be part of the names of Kubernetes objects: %s; set another with --project-name", name, errs[0])
	}
	return nil
}

func checkRepo(repo string) error {
	if err := module.CheckImportPath(repo); err != nil {
		return fmt.Errorf("--repo %q: %w", repo, err)
	}
	return nil
}

// checkNames validates the names of a kind.
func checkNames(group, version, kind, plural string) error {
	if group != "" {
		if errs := validation.IsDNS1123Subdomain(group); len(errs) > 0 {
			return fmt.Errorf("--group %q: %s", group, errs[0])
		}
		if name := packageName(group); token.IsKeyword(name) || group == "internal" {
			return fmt.Errorf("--group %q cannot be the name of a Go package", group)
		}
	}
	if !versionPattern.MatchString(version) {
		return fmt.Errorf("--version %q: must have the form v1, v1beta1 or v2alpha1", version)
	}
	if kind == "" {
		return fmt.Errorf("--kind is required")
	}
	if errs := validation.IsDNS1035Label(strings.ToLower(kind)); len(errs) > 0 {
		return fmt.Errorf("--kind %q: %s", kind, errs[0])
	}
	if !token.IsIdentifier(kind) || kind[0] < 'A' || kind[0] > 'Z' {
		return fmt.Errorf("--kind %q: must be an exported Go name, for example %q", kind, strings.ToUpper(kind[:1])+kind[1:])
	}
	if plural != "" {
		if errs := validation.IsDNS1035Label(plural); len(errs) > 0 {
			return fmt.Errorf("--plural %q: %s", plural, errs[0])
		}
	}
	return nil
}

// packageName returns a Go package name for a group.
func packageName(group string) string {
	return strings.NewReplacer("-", "", ".", "").Replace(strings.ToLower(group))
}

// values are the data for templates and for the names of their files.
type values struct {
	// Of the project.
	ProjectName, Domain, Repo, GoVersion string
	Checkout                             string // of Kelson, if go.mod points at one
	MultiGroup                           bool

	// Of the kind.
	Resource
	Lower       string // the kind in lower case
	Many        string // its plural
	Qualified   string // its group, with the domain
	Alias       string // the name by which its package is imported
	InGroup     string // group and slash where the project has several groups: part of paths
	Dashed      string // its group in the form of webhooks' paths
	MarkerGroup string // its group in the form of markers
	HubAlias    string // of the hub, for a spoke
	HubPath     string
	Controllers string // name of the package of its controller
	Kinds       string // name of the package of its rules, in a custom API server
}

func (p *Project) values() values {
	return values{ProjectName: p.Name, Domain: p.Domain, Repo: p.Repo, MultiGroup: p.MultiGroup}
}

func (p *Project) valuesOf(r *Resource) values {
	v := p.values()
	v.Resource = *r
	v.Lower, v.Many, v.Qualified = strings.ToLower(r.Kind), r.Plural, r.QualifiedGroup()
	if v.Many == "" {
		v.Many = model.Plural(r.Kind)
	}
	v.Alias = packageName(r.Group) + r.Version
	if r.Core {
		v.Qualified = qualifiedCore(r)
	}
	v.Dashed, v.MarkerGroup = strings.ReplaceAll(v.Qualified, ".", "-"), v.Qualified
	if v.Qualified == "" {
		v.MarkerGroup = `""`
	}
	v.Controllers, v.Kinds = "controller", "kinds"
	if p.inGroup(r) {
		v.InGroup, v.Controllers, v.Kinds = r.Group+"/", packageName(r.Group), packageName(r.Group)
	}
	if v.Group == "" {
		v.Alias = r.Version
	}
	return v
}

// inGroup reports whether the files of a kind are in folders of its group. Existing kinds are not
// moved when a project becomes multi-group.
func (p *Project) inGroup(r *Resource) bool {
	if r.Group == "" {
		return false
	}
	if r.Path == "" || r.Core {
		return p.MultiGroup
	}
	return path.Base(path.Dir(r.Path)) == r.Group
}

// apiPath returns the import path of the Go types of a kind of the project.
func (p *Project) apiPath(r *Resource) string {
	if p.MultiGroup && r.Group != "" {
		return path.Join(p.Repo, "api", r.Group, r.Version)
	}
	return path.Join(p.Repo, "api", r.Version)
}

// fileName replaces the words in capitals in the path of a template file. If the group is empty,
// the API group is the domain.
func (v values) fileName(template string) string {
	group := strings.ReplaceAll(v.Group, ".", "_") + "_"
	if v.Group == "" {
		group = ""
	}
	return strings.NewReplacer("GROUP_", group, "INGROUP/", v.InGroup, "VERSION", v.Version, "KIND", v.Lower).Replace(template)
}
