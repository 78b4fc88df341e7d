package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// request is what of a request's attributes matters to rules.
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
		isResource: true, verb: a.GetVerb(), group: a.GetAPIGroup(), resource: a.GetResource(), subresource: a.GetSubresource(), object: a.GetName(),
	}
}

// table is a set of rules, found by the resource or the path that they speak of.
type table struct {
	// resources are the rules by the resource they name, without its subresource; "*" are those for any.
	resources map[string][]entry
	paths     []entry
}

// entry is one rule as one of its resources or paths.
type entry struct {
	rule   *rbacv1.PolicyRule
	names  string // the resource with its subresource, or the path
	reason string // of who is bound to the rule, where the table is that of a subject
}

// add takes the rules of a role in.
func (t *table) add(rules []rbacv1.PolicyRule, reason string) {
	if t.resources == nil {
		t.resources = map[string][]entry{}
	}
	for i := range rules {
		for _, name := range rules[i].Resources {
			first := main(name)
			t.resources[first] = append(t.resources[first], entry{&rules[i], name, reason})
		}
		for _, path := range rules[i].NonResourceURLs {
			t.paths = append(t.paths, entry{&rules[i], path, reason})
		}
	}
}

// main is a resource's name without what is behind a slash.
func main(resource string) string {
	if i := strings.IndexByte(resource, '/'); i >= 0 {
		return resource[:i]
	}
	return resource
}

// find returns an entry that allows the request.
func (t *table) find(r *request) *entry {
	if !r.isResource {
		for i := range t.paths {
			if e := &t.paths[i]; matchesVerb(e.rule, r.verb) && matchesPath(e.names, r.path) {
				return e
			}
		}
		return nil
	}
	first := main(r.resource)
	if e := allowing(t.resources[first], r); e != nil || first == rbacv1.ResourceAll {
		return e
	}
	return allowing(t.resources[rbacv1.ResourceAll], r)
}

func allowing(entries []entry, r *request) *entry {
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

// matchesResource compares the name in a rule ("pods", "pods/log", "*/scale", "*") with a request's.
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

// matchesPath compares the path in a rule ("/healthz", "/apis/*", "*") with a request's.
func matchesPath(pattern, path string) bool {
	if pattern == rbacv1.NonResourceAll || pattern == path {
		return true
	}
	return strings.HasSuffix(pattern, "*") && strings.HasPrefix(path, strings.TrimRight(pattern, "*"))
}

// role is a stored Role or ClusterRole, made ready.
type role struct {
	rules []rbacv1.PolicyRule
	table table
}

// compiled is the memo key of a role.
type compiled struct{}

// compile makes a stored role ready, once per revision.
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
