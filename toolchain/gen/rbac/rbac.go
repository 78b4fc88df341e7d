// Package rbac writes Roles and ClusterRoles from the rules that controllers ask for in comments:
//
//	// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create
//
// Rules are merged as far as they say the same, and sorted, so that the file does not depend on where the markers stand. Rules with a
// namespace go to a Role there, others to the ClusterRole; roleName gives a rule to a role of that name.
package rbac

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"kelson.dev/toolchain/model"
)

// FileName is what the generated file is called.
const FileName = "role.yaml"

// DefaultRole is the name of the role of rules that name none, as kubebuilder's projects have it.
const DefaultRole = "manager-role"

// role is where a rule goes.
type role struct{ namespace, name string }

// Role is a ClusterRole, or a Role if it has a namespace.
type Role struct {
	Namespace, Name string
	Rules           []rbacv1.PolicyRule
}

// Roles collects the rules of all packages.
func Roles(api *model.API) []Role {
	rules := map[role][]*rbacv1.PolicyRule{}
	for _, p := range api.Packages {
		for _, m := range p.Markers {
			if m.Name != "kubebuilder:rbac" {
				continue
			}
			to := role{m.String("namespace"), m.String("roleName")}
			if to.name == "" {
				to.name = DefaultRole
			}
			resources := m.Strings("resources")
			if len(resources) == 0 {
				resources = []string{""}
			}
			for _, r := range resources { // each by itself, so that rules can be merged by resource
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
				rules[to] = append(rules[to], rule)
			}
		}
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
	return roles
}

// set sorts and removes doubles; an empty list is nil.
func set(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

// merge joins rules that differ in one member only: first in their verbs, then resources, groups, URLs.
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

// key is what a rule is about.
func key(r *rbacv1.PolicyRule) string {
	var parts []string
	for _, list := range [][]string{r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs} {
		parts = append(parts, strings.Join(list, "&"))
	}
	return strings.Join(parts, " + ")
}

// YAML is the roles as YAML documents, nil if there are none.
func YAML(roles []Role) ([]byte, error) {
	var out []byte
	for _, r := range roles {
		kind, meta := "ClusterRole", map[string]any{"name": r.Name}
		if r.Namespace != "" {
			kind, meta["namespace"] = "Role", r.Namespace
		}
		data, err := json.Marshal(map[string]any{"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": kind, "metadata": meta, "rules": r.Rules})
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
