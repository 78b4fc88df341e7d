// Package rbac generates Roles and ClusterRoles from the rules that controllers declare in markers:
//
//	// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create
//
// and from the finalizers of reconcilers of kelson.dev/operator. If a reconciler has a method
//
//	Finalize(ctx context.Context, obj *T) (operator.Result, error)
//
// the library adds and removes its finalizer with a patch of the object, so the role gets the verb
// patch for the resource of T.
//
// Rules that differ only in one member are merged, and all rules are sorted, so the file does not
// depend on the positions of the markers. Rules with a namespace go into a Role in that namespace,
// others into a ClusterRole. roleName selects another role than the default one.
package rbac

import (
	"encoding/json"
	"fmt"
	"go/token"
	"slices"
	"sort"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/model"
)

// FileName is the name of the generated file.
const FileName = "role.yaml"

// DefaultRole is the usual name of the role of rules without roleName, as in kubebuilder.
const DefaultRole = "manager-role"

// role identifies a Role, or a ClusterRole if namespace is empty.
type role struct{ namespace, name string }

// Role is a generated ClusterRole, or a Role if it has a namespace.
type Role struct {
	Namespace, Name string
	Rules           []rbacv1.PolicyRule
}

// Roles collects the rules of all packages and merges them, sorted by namespace and name. Rules
// without roleName are in the role byDefault. The second result lists reconcilers that need a rule
// that Roles cannot derive; each is a *loader.Error.
func Roles(api *model.API, ws *loader.Workspace, byDefault string) ([]Role, []error) {
	c := collector{byDefault: byDefault}
	for _, p := range api.Packages {
		c.addMarkers(p)
	}
	var warnings []error
	if ws.Requires(libraryModule) {
		warnings = c.addFinalizers(api)
	}
	rules := map[role][]*rbacv1.PolicyRule{}
	for _, g := range c.grants {
		rules[g.to] = append(rules[g.to], g.rule)
	}
	var roles []Role
	for to, rs := range rules {
		roles = append(roles, Role{Namespace: to.namespace, Name: to.name, Rules: merge(rs)})
	}
	sort.Slice(roles, func(i, j int) bool {
		if roles[i].Namespace != roles[j].Namespace {
			return roles[i].Namespace < roles[j].Namespace
		}
		return roles[i].Name < roles[j].Name
	})
	return roles, warnings
}

// grant is one rule of one role, and the package that needs it. The rule has at most one resource.
type grant struct {
	to   role
	rule *rbacv1.PolicyRule
	from *model.Package
	pos  token.Position // of the marker; zero if there is none
}

// collector gathers the grants of an API before they are merged into roles.
type collector struct {
	byDefault string // the name of the role of rules without roleName
	grants    []grant
}

// addMarkers adds the rules of the package's markers, one for each resource so that merge can join
// rules by resource.
func (c *collector) addMarkers(p *model.Package) {
	for _, m := range p.Markers {
		if m.Name != "kubebuilder:rbac" {
			continue
		}
		to := role{m.String("namespace"), m.String("roleName")}
		if to.name == "" {
			to.name = c.byDefault
		}
		resources := m.Strings("resources")
		if len(resources) == 0 {
			resources = []string{""}
		}
		for _, r := range resources {
			rule := &rbacv1.PolicyRule{
				APIGroups: set(m.Strings("groups")), Verbs: set(m.Strings("verbs")),
				ResourceNames: set(m.Strings("resourceNames")), NonResourceURLs: set(m.Strings("urls")),
			}
			if r != "" {
				rule.Resources = []string{r}
			}
			if i := slices.Index(rule.APIGroups, "core"); i >= 0 {
				rule.APIGroups[i] = ""
				rule.APIGroups = set(rule.APIGroups)
			}
			c.grants = append(c.grants, grant{to: to, rule: rule, from: p, pos: m.Pos})
		}
	}
}

// set returns a sorted copy without duplicates, nil for an empty list.
func set(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

// merge joins rules that differ in one member only: first in their verbs, then in their resources,
// groups and URLs.
func merge(rules []*rbacv1.PolicyRule) []rbacv1.PolicyRule {
	members := []func(*rbacv1.PolicyRule) *[]string{
		func(r *rbacv1.PolicyRule) *[]string { return &r.Verbs },
		func(r *rbacv1.PolicyRule) *[]string { return &r.Resources },
		func(r *rbacv1.PolicyRule) *[]string { return &r.APIGroups },
		func(r *rbacv1.PolicyRule) *[]string { return &r.NonResourceURLs },
	}
	for _, member := range members {
		byRest := map[string]*rbacv1.PolicyRule{}
		var kept []*rbacv1.PolicyRule
		for _, r := range rules {
			rest := *r
			*member(&rest) = nil
			key := key(&rest) + strings.Join(rest.Verbs, "&")
			first := byRest[key]
			if first == nil {
				byRest[key] = r
				kept = append(kept, r)
				continue
			}
			*member(first) = set(append(*member(first), *member(r)...))
		}
		rules = kept
	}
	sort.Slice(rules, func(i, j int) bool { return key(rules[i]) < key(rules[j]) })
	out := make([]rbacv1.PolicyRule, len(rules))
	for i, r := range rules {
		if slices.Contains(r.Verbs, "*") {
			r.Verbs = []string{"*"}
		}
		out[i] = *r
	}
	return out
}

// key identifies a rule by all its fields except the verbs.
func key(r *rbacv1.PolicyRule) string {
	var parts []string
	for _, list := range [][]string{r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs} {
		parts = append(parts, strings.Join(list, "&"))
	}
	return strings.Join(parts, " + ")
}

// YAML encodes the roles as YAML documents. It returns nil if there are none.
func YAML(roles []Role) ([]byte, error) {
	var out []byte
	for _, r := range roles {
		kind, meta := "ClusterRole", map[string]any{"name": r.Name}
		if r.Namespace != "" {
			kind, meta["namespace"] = "Role", r.Namespace
		}
		data, err := json.Marshal(map[string]any{
			"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": kind, "metadata": meta, "rules": r.Rules,
		})
		if err != nil {
			return nil, fmt.Errorf("encode role %s: %w", r.Name, err)
		}
		doc, err := yaml.JSONToYAML(data)
		if err != nil {
			return nil, fmt.Errorf("encode role %s: %w", r.Name, err)
		}
		out = append(append(out, "---\n"...), doc...)
	}
	return out, nil
}
