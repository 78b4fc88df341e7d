package scaffold

import (
	"fmt"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"slices"
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

// The longest suffixes of the project's name in names that are DNS labels: those of Services and
// Namespaces. An operator's objects are in config/default, those of an API server in
// config/apiserver.
const (
	longestSuffix       = "-controller-manager-metrics"
	longestServerSuffix = "-system"
)

func checkProjectName(name string, server bool) error {
	problem := ""
	limit := validation.DNS1123LabelMaxLength - len(longestSuffix)
	if server {
		limit = validation.DNS1123LabelMaxLength - len(longestServerSuffix)
	}
	if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
		problem = errs[0]
	} else if len(name) > limit {
		problem = fmt.Sprintf("must be no more than %d characters", limit)
	}
	if problem != "" {
		return fmt.Errorf("project name %q cannot be part of the names of Kubernetes objects: %s; set another with --project-name", name, problem)
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
		return fmt.Errorf("--kind %q: must be an exported Go name, for example %q", kind, exported(kind))
	}
	if plural != "" {
		if errs := validation.IsDNS1035Label(plural); len(errs) > 0 {
			return fmt.Errorf("--plural %q: %s", plural, errs[0])
		}
	}
	return nil
}

// exported returns a kind, which is a DNS label, as an exported Go name: without dashes, and with a
// capital at the beginning of each part.
func exported(kind string) string {
	var name strings.Builder
	for part := range strings.SplitSeq(kind, "-") {
		if part != "" {
			name.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return name.String()
}

// packageName returns a Go package name for a group.
func packageName(group string) string {
	name := strings.NewReplacer("-", "", ".", "").Replace(strings.ToLower(group))
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		return "g" + name // names cannot begin with a digit
	}
	return name
}

// Names that files of the template use, where they also use a package of a group: names of other
// packages, of variables, and of functions that Go treats specially.
var (
	reservedForControllers = []string{
		"env", "err", "init", "main", "metav1", "obj", "operator", "operatortest", "reconcile", "runtime", "scheme",
		"t", "testing", "time",
	}
	reservedForKinds = []string{"apiserver", "init", "main"}
	reservedForTypes = []string{"metav1"}
)

// groupPackage returns the name of a package of a group: the group's or, if that is reserved or
// predeclared, the group's with a suffix.
func groupPackage(group, suffix string, reserved []string) string {
	name := packageName(group)
	if slices.Contains(reserved, name) || types.Universe.Lookup(name) != nil {
		return name + suffix
	}
	return name
}

// typesAlias returns the name by which files of the template import the types of a group's version.
func typesAlias(group, version string) string {
	if alias := packageName(group) + version; !slices.Contains(reservedForTypes, alias) {
		return alias
	}
	return packageName(group) + "api" + version
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
	Alias       string // the name by which files of the kind import its package
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
	v.Alias = typesAlias(r.Group, r.Version)
	if r.Core {
		v.Qualified = qualifiedCore(r)
	}
	v.Dashed, v.MarkerGroup = strings.ReplaceAll(v.Qualified, ".", "-"), v.Qualified
	if v.Qualified == "" {
		v.MarkerGroup = `""`
	}
	v.Controllers, v.Kinds = "controller", "kinds"
	if p.inGroup(r) {
		v.InGroup = r.Group + "/"
		v.Controllers = groupPackage(r.Group, "controller", reservedForControllers)
		v.Kinds = groupPackage(r.Group, "kinds", reservedForKinds)
	}
	return v
}

// inGroup reports whether the files of a kind are in folders of its group. Existing kinds are not
// moved when a project becomes multi-group.
func (p *Project) inGroup(r *Resource) bool {
	switch {
	case r.Group == "":
		return false
	case r.Core && r.grouped != nil:
		return *r.grouped
	case r.Path == "" || r.Core:
		return p.MultiGroup
	}
	return r.Path != p.ungroupedPath(r) && path.Base(path.Dir(r.Path)) == r.Group
}

// apiPath returns the import path of the Go types of a new kind of the project. Kinds of the same
// group and version share a package, also if the project became multi-group between them.
func (p *Project) apiPath(r *Resource) string {
	for i := range p.Resources {
		if o := &p.Resources[i]; o.API && o.Group == r.Group && o.Version == r.Version && o.Path != "" {
			return o.Path
		}
	}
	if p.MultiGroup && r.Group != "" {
		return path.Join(p.Repo, "api", r.Group, r.Version)
	}
	return p.ungroupedPath(r)
}

// ungroupedPath returns the import path of a version without a folder for its group.
func (p *Project) ungroupedPath(r *Resource) string { return path.Join(p.Repo, "api", r.Version) }

// fileName replaces the words in capitals in the path of a template file. If the group is empty,
// the API group is the domain.
func (v values) fileName(template string) string {
	if rest, ok := strings.CutPrefix(template, "api/INGROUP/VERSION/"); ok && strings.HasPrefix(v.Path, v.Repo+"/") {
		template = v.typesDir() + "/" + rest
	}
	group := strings.ReplaceAll(v.Group, ".", "_") + "_"
	if v.Group == "" {
		group = ""
	}
	return strings.NewReplacer("GROUP_", group, "INGROUP/", v.InGroup, "VERSION", v.Version, "KIND",
		v.Lower).Replace(template)
}

// typesDir returns the folder of the Go types.
func (v *values) typesDir() string {
	return strings.TrimPrefix(strings.TrimPrefix(v.Path, v.Repo), "/")
}

// typesFile returns the file of the Go types.
func (v *values) typesFile() string { return v.typesDir() + "/" + v.Lower + "_types.go" }
