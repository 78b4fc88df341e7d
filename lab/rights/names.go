package rights

import (
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Names has the names of the objects in requests, by request without its namespace. The name "" is
// that of a request for no particular object, such as a list without a field selector for
// metadata.name. Creations have no names: RBAC cannot check them.
type Names map[Request]map[string]bool

// add records the name in a request.
func (n Names) add(r Request, name string) {
	if r.Verb == "create" || r.URL != "" {
		return
	}
	r.Namespace = ""
	if n[r] == nil {
		n[r] = map[string]bool{}
	}
	n[r][name] = true
}

// Merge adds the names of others.
func (n Names) Merge(others Names) {
	for r, names := range others {
		for name := range names {
			n.add(r, name)
		}
	}
}

// maxNames bounds the resourceNames of a rule. An operator that names more objects probably
// computes their names.
const maxNames = 4

// Fixed returns the names to which rules for a resource can be restricted, sorted. It returns nil
// if
//
//   - a request for the resource or one of its subresources names no object: the operator works
//     with all objects that exist;
//   - there are more than a few names;
//   - a name contains the name of an object of another resource with such requests: the operator
//     has probably computed it from that object.
func (n Names) Fixed(group, resource string) []string {
	base, _, _ := strings.Cut(resource, "/")
	found := map[string]bool{}
	for r, names := range n {
		of, _, _ := strings.Cut(r.Resource, "/")
		if r.Group != group || of != base {
			continue
		}
		if names[""] || len(names) > maxNames {
			return nil
		}
		if r.Resource == resource {
			maps.Copy(found, names)
		}
	}
	if len(found) == 0 || len(found) > maxNames || n.derived(group, base, found) {
		return nil
	}
	return slices.Sorted(maps.Keys(found))
}

// derived reports whether one of the names of a resource contains the name of an object of another
// resource of which the operator works with all objects.
func (n Names) derived(group, resource string, found map[string]bool) bool {
	for r, names := range n {
		of, _, _ := strings.Cut(r.Resource, "/")
		if r.Group == group && of == resource || !n.open(r.Group, of) {
			continue
		}
		for input := range names {
			for name := range found {
				if input != "" && strings.Contains(words(name), words(input)) {
					return true
				}
			}
		}
	}
	return false
}

// open reports whether a request for a resource names no object.
func (n Names) open(group, resource string) bool {
	for r, names := range n {
		if of, _, _ := strings.Cut(r.Resource, "/"); r.Group == group && of == resource && names[""] {
			return true
		}
	}
	return false
}

// words returns a name between separators, with one kind of separator.
func words(name string) string { return "-" + strings.ReplaceAll(name, ".", "-") + "-" }

// Restrictable returns the resources whose rules could have resourceNames, with the names, as
// "leases.coordination.k8s.io shop-leader", sorted.
func (n Names) Restrictable() []string {
	all := map[string]bool{}
	for r := range n {
		if names := n.Fixed(r.Group, r.Resource); len(names) > 0 {
			r.Verb = ""
			all[strings.TrimSpace(r.String())+" "+strings.Join(names, ", ")] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// restrict returns a rule for a resource as one rule, or as two if its objects have fixed names:
// resourceNames restrict all verbs but create.
func (n Names) restrict(rule rbacv1.PolicyRule) []rbacv1.PolicyRule {
	names := n.Fixed(rule.APIGroups[0], rule.Resources[0])
	if names == nil {
		return []rbacv1.PolicyRule{rule}
	}
	named, others := rule, rule
	named.Verbs, others.Verbs, named.ResourceNames = nil, nil, names
	for _, verb := range rule.Verbs {
		if verb == "create" {
			others.Verbs = append(others.Verbs, verb)
		} else {
			named.Verbs = append(named.Verbs, verb)
		}
	}
	rules := []rbacv1.PolicyRule{others, named}
	return slices.DeleteFunc(rules, func(r rbacv1.PolicyRule) bool { return len(r.Verbs) == 0 })
}
