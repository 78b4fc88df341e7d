package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// request holds the attributes of a request that rules match.
type request struct {
	isResource                                 bool
	verb, group, resource, subresource, object string
	path                                       string
}

func newRequest(a authorizer.Attributes) request {
	if !a.IsResourceRequest() {
		return request{verb: a.GetVerb(), path: a.GetPath()}
	}
	return request{
		isResource: true, verb: a.GetVerb(), group: a.GetAPIGroup(), resource: a.GetResource(),
		subresource: a.GetSubresource(), object: a.GetName(),
	}
}

// table is a set of rules, indexed by resource or path.
type table struct {
	// resources maps a resource without its subresource to its rules. "*" maps to the rules for all
	// resources.
	resources map[string][]entry
	paths     []entry
}

// entry is a rule and one of its resources or paths.
type entry struct {
	rule   *rbacv1.PolicyRule
	names  string // the resource with its subresource, or the path
	reason string // the binding of the rule, in the table of a subject; else ""
}

// add adds the rules of a role.
func (t *table) add(rules []rbacv1.PolicyRule, reason string) {
	if t.resources == nil {
		t.resources = map[string][]entry{}
	}
	for i := range rules {
		for _, name := range rules[i].Resources {
			resource := withoutSubresource(name)
			t.resources[resource] = append(t.resources[resource], entry{&rules[i], name, reason})
		}
		for _, path := range rules[i].NonResourceURLs {
			t.paths = append(t.paths, entry{&rules[i], path, reason})
		}
	}
}

// withoutSubresource returns the part of a resource's name before the slash.
func withoutSubresource(resource string) string {
	if i := strings.IndexByte(resource, '/'); i >= 0 {
		return resource[:i]
	}
	return resource
}

// find returns an entry that allows the request, or nil.
func (t *table) find(r *request) *entry {
	if !r.isResource {
		for i := range t.paths {
			if e := &t.paths[i]; matchesVerb(e.rule, r.verb) && matchesPath(e.names, r.path) {
				return e
			}
		}
		return nil
	}
	resource := withoutSubresource(r.resource)
	if e := findResource(t.resources[resource], r); e != nil || resource == rbacv1.ResourceAll {
		return e
	}
	return findResource(t.resources[rbacv1.ResourceAll], r)
}

func findResource(entries []entry, r *request) *entry {
	for i := range entries {
		e := &entries[i]
		if matchesResource(e.names, r.resource, r.subresource) && matchesVerb(e.rule, r.verb) &&
			(slices.Contains(e.rule.APIGroups, r.group) || slices.Contains(e.rule.APIGroups, rbacv1.APIGroupAll)) &&
			(len(e.rule.ResourceNames) == 0 || slices.Contains(e.rule.ResourceNames, r.object)) {
			return e
		}
	}
	return nil
}

func matchesVerb(rule *rbacv1.PolicyRule, verb string) bool {
	for _, v := range rule.Verbs {
		if v == verb || v == rbacv1.VerbAll {
			return true
		}
	}
	return false
}

// matchesResource reports whether the name in a rule ("pods", "pods/log", "*/scale", "*") matches a
// resource.
func matchesResource(name, resource, subresource string) bool {
	if name == rbacv1.ResourceAll {
		return true
	}
	if subresource == "" {
		return name == resource
	}
	before, ok := strings.CutSuffix(name, subresource)
	if !ok {
		return false
	}
	before, ok = strings.CutSuffix(before, "/")
	return ok && (before == resource || before == rbacv1.ResourceAll)
}

// matchesPath reports whether the path in a rule ("/healthz", "/apis/*", "*") matches a path.
func matchesPath(pattern, path string) bool {
	if pattern == rbacv1.NonResourceAll || pattern == path {
		return true
	}
	return strings.HasSuffix(pattern, "*") && strings.HasPrefix(path, strings.TrimRight(pattern, "*"))
}

// role is a stored Role or ClusterRole with its compiled rules.
type role struct {
	rules []rbacv1.PolicyRule
	table table
}

// compiled is the key under which compile caches a role with its object.
type compiled struct{}

// compile compiles a stored role, once per revision.
func compile(obj *store.Object) (*role, error) {
	r, err := obj.Memo(compiled{}, func() (any, error) {
		r := &role{}
		if obj.Key.Resource == clusterRoles {
			stored, err := derived.Of[rbacv1.ClusterRole](obj)
			if err != nil {
				return nil, err
			}
			r.rules = stored.Rules
		} else {
			stored, err := derived.Of[rbacv1.Role](obj)
			if err != nil {
				return nil, err
			}
			r.rules = stored.Rules
		}
		r.table.add(r.rules, "")
		return r, nil
	})
	if err != nil {
		return nil, err
	}
	return r.(*role), nil
}
