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
		return fmt.Errorf("--domain %q is no domain name: %s", domain, errs[0])
	}
	return nil
}

func checkProjectName(name string) error {
	if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
		return fmt.Errorf("project name %q can't be part of the names of Kubernetes objects: %s (say another with --project-name)", name, errs[0])
	}
	return nil
}

func checkRepo(repo string) error {
	if err := module.CheckImportPath(repo); err != nil {
		return fmt.Errorf("--repo %q: %w", repo, err)
	}
	return nil
}

// checkNames judges what a kind is to be called.
func checkNames(group, version, kind, plural string) error {
	if group != "" {
		if errs := validation.IsDNS1123Subdomain(group); len(errs) > 0 {
			return fmt.Errorf("--group %q: %s", group, errs[0])
		}
		if name := packageName(group); token.IsKeyword(name) || group == "internal" {
			return fmt.Errorf("--group %q can't be the name of a Go package", group)
		}
	}
	if !versionPattern.MatchString(version) {
		return fmt.Errorf("--version %q: it must be as v1, v1beta1 or v2alpha1 are", version)
	}
	if kind == "" {
		return fmt.Errorf("--kind is missing")
	}
	if errs := validation.IsDNS1035Label(strings.ToLower(kind)); len(errs) > 0 {
		return fmt.Errorf("--kind %q: %s", kind, errs[0])
	}
	if !token.IsIdentifier(kind) || kind[0] < 'A' || kind[0] > 'Z' {
		return fmt.Errorf("--kind %q: it must be as a Go type that is exported, such as %q", kind, strings.ToUpper(kind[:1])+kind[1:])
	}
	if plural != "" {
		if errs := validation.IsDNS1035Label(plural); len(errs) > 0 {
			return fmt.Errorf("--plural %q: %s", plural, errs[0])
		}
	}
	return nil
}

// packageName makes a Go name of a group.
func packageName(group string) string {
	return strings.NewReplacer("-", "", ".", "").Replace(strings.ToLower(group))
}

// values are what templates and paths are filled with.
type values struct {
	// The project's.
	ProjectName, Domain, Repo, GoVersion string
	Checkout                             string // of Kelson, where go.mod points at one
	MultiGroup                           bool

	// The kind's.
	Resource
	Lower       string // the kind in lower case
	Many        string // its plural
	Qualified   string // its group, with the domain
	Alias       string // the name by which its package is imported
	InGroup     string // group and slash where the project has several groups: part of paths
	Dashed      string // its group as in the paths of webhooks
	MarkerGroup string // its group as in markers
	HubAlias    string // of the hub, for a spoke
	HubPath     string
	Controllers string // name of the package of its controller
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
	v.Controllers = "controller"
	if p.inGroup(r) {
		v.InGroup, v.Controllers = r.Group+"/", packageName(r.Group)
	}
	if v.Group == "" {
		v.Alias = r.Version
	}
	return v
}

// inGroup says whether the files of a kind are in folders of its group. Kinds stay where they are when a project gets several groups.
func (p *Project) inGroup(r *Resource) bool {
	if r.Group == "" {
		return false
	}
	if r.Path == "" || r.Core {
		return p.MultiGroup
	}
	return path.Base(path.Dir(r.Path)) == r.Group
}

// apiPath is the import path of the types of a kind that is the project's own.
func (p *Project) apiPath(r *Resource) string {
	if p.MultiGroup && r.Group != "" {
		return path.Join(p.Repo, "api", r.Group, r.Version)
	}
	return path.Join(p.Repo, "api", r.Version)
}

// fileName is a template's path with its words in capitals replaced. A kind may have no group but the domain.
func (v values) fileName(template string) string {
	group := strings.ReplaceAll(v.Group, ".", "_") + "_"
	if v.Group == "" {
		group = ""
	}
	return strings.NewReplacer("GROUP_", group, "INGROUP/", v.InGroup, "VERSION", v.Version, "KIND", v.Lower).Replace(template)
}
