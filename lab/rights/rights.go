// Package rights computes the least roles of an operator from the requests that it made, and
// compares them with the rules that the operator declares.
//
// Requests come from an audit log (see [FromAudit]). The log has only the requests that the
// operator sent while the log was written, so it should cover tests that reach the operator's error
// paths.
//
// Two kinds of rules do not appear as requests: update of RESOURCE/finalizers, which the admission
// plugin OwnerReferencesPermissionEnforcement checks, and the verbs that a controller needs because
// it grants them (escalate, bind, impersonate of other users). [Compare] does not report declared
// rules of these kinds as unused.
package rights

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"kelson.dev/toolchain/gen/rbac"
)

// Request has the attributes of a request that a rule must allow. Requests that need the same rule
// are equal.
type Request struct {
	Verb      string
	Group     string
	Resource  string // with its subresource: pods, or pods/log
	Namespace string // empty: an object without a namespace, or all namespaces
	URL       string // of a request that is not for a resource
}

// Roles returns the least roles that allow all requests, with one rule for each resource.
//
// If all requests for a resource are in the same namespace, they go to a Role in that namespace,
// and otherwise to the ClusterRole.
//
// Rules have the resourceNames that [Names.Fixed] returns. With nil, rules have none: names of
// objects can differ between a test and a cluster.
//
// The scope follows the watches: if an operator watches a resource in all namespaces, and has sent
// requests for it in one namespace, it acts where the objects of that resource are. Its requests
// for other resources in that namespace then go to the ClusterRole, too. Leases, of leader
// election, do not follow.
//
// A rule that allows watch also allows list: clients list if a server, such as an older release of
// Kubernetes, does not support watches that begin with the state.
func Roles(name string, requests []Request, names Names) []rbac.Role {
	var lists []Request
	for _, r := range requests {
		if r.Verb == "watch" {
			r.Verb = "list"
			lists = append(lists, r)
		}
	}
	return exactRoles(name, followWatches(Union(requests, lists)), names)
}

// followWatches returns the requests without the namespaces in which the operator acts because it
// watches all namespaces.
func followWatches(requests []Request) []Request {
	everywhere := map[[2]string]bool{} // resources that are watched in all namespaces
	for _, r := range requests {
		if r.Verb == "watch" && r.Namespace == "" && r.URL == "" {
			everywhere[[2]string{r.Group, r.Resource}] = true
		}
	}
	follows := map[string]bool{} // namespaces
	for _, r := range requests {
		resource, _, _ := strings.Cut(r.Resource, "/")
		if r.Namespace != "" && everywhere[[2]string{r.Group, resource}] {
			follows[r.Namespace] = true
		}
	}
	all := slices.Clone(requests)
	for i, r := range all {
		if follows[r.Namespace] && (r.Group != "coordination.k8s.io" || r.Resource != "leases") {
			all[i].Namespace = ""
		}
	}
	return Union(all)
}

// exactRoles returns the least roles that allow the requests, and nothing else.
func exactRoles(name string, requests []Request, names Names) []rbac.Role {
	spaces := map[[2]string]map[string]bool{} // the namespaces of each resource
	for _, r := range requests {
		at := [2]string{r.Group, r.Resource}
		if spaces[at] == nil {
			spaces[at] = map[string]bool{}
		}
		spaces[at][r.Namespace] = true
	}
	type target struct{ namespace, group, resource, url string }
	verbs := map[target]map[string]bool{}
	for _, r := range requests {
		to := target{group: r.Group, resource: r.Resource, url: r.URL}
		if len(spaces[[2]string{r.Group, r.Resource}]) == 1 {
			to.namespace = r.Namespace
		}
		if verbs[to] == nil {
			verbs[to] = map[string]bool{}
		}
		verbs[to][r.Verb] = true
	}
	order := func(a, b target) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.group, b.group),
			strings.Compare(a.resource, b.resource), strings.Compare(a.url, b.url))
	}
	var roles []rbac.Role
	for _, to := range slices.SortedFunc(maps.Keys(verbs), order) {
		if n := len(roles); n == 0 || roles[n-1].Namespace != to.namespace {
			roles = append(roles, rbac.Role{Namespace: to.namespace, Name: name})
		}
		rule := rbacv1.PolicyRule{Verbs: slices.Sorted(maps.Keys(verbs[to]))}
		rules := []rbacv1.PolicyRule{rule}
		if to.url != "" {
			rules[0].NonResourceURLs = []string{to.url}
		} else {
			rule.APIGroups, rule.Resources = []string{to.group}, []string{to.resource}
			rules = names.restrict(rule)
		}
		last := &roles[len(roles)-1]
		last.Rules = append(last.Rules, rules...)
	}
	return roles
}

// allows reports whether a rule of a role in a namespace allows a request.
func allows(namespace string, rule rbacv1.PolicyRule, r Request) bool {
	if namespace != "" && namespace != r.Namespace || !has(rule.Verbs, r.Verb) {
		return false
	}
	if r.URL != "" {
		return namespace == "" && slices.ContainsFunc(rule.NonResourceURLs, func(u string) bool {
			prefix, open := strings.CutSuffix(u, "*")
			return u == r.URL || open && strings.HasPrefix(r.URL, prefix)
		})
	}
	_, sub, isSub := strings.Cut(r.Resource, "/")
	return has(rule.APIGroups, r.Group) && (has(rule.Resources, r.Resource) ||
		isSub && slices.Contains(rule.Resources, "*/"+sub))
}

// has reports whether a list contains a value or the wildcard.
func has(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}
