package rights

import (
	"fmt"
	"go/token"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"kelson.dev/toolchain/gen/rbac"
)

// Comparison is the difference between the rules that an operator has and the rules that it needed.
type Comparison struct {
	// Missing are the requests that no role allows.
	Missing []Request
	// Unused are declared verbs that no request needed, by declaration.
	Unused []Unused
}

// Unused is a declaration with verbs that were not needed.
type Unused struct {
	rbac.Declaration
	// Verbs lists the verbs that were not needed. For the verb *, it is empty, and Used lists the
	// needed ones.
	Verbs []string
	// Used lists the verbs that were needed; if it is empty, the whole rule was not needed.
	Used []string
}

// Compare compares the requests of an operator with its roles, which include rules that the
// generator derives, and with its markers.
//
// A rule with resourceNames counts as allowing its verbs for all names, because requests have no
// names.
func Compare(requests []Request, roles []rbac.Role, declared []rbac.Declaration) Comparison {
	var c Comparison
	for _, r := range requests {
		allowed := slices.ContainsFunc(roles, func(role rbac.Role) bool {
			return slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
				return allows(role.Namespace, rule, r)
			})
		})
		if !allowed {
			c.Missing = append(c.Missing, r)
		}
	}
	for _, d := range declared {
		if u := unused(d, requests); len(u.Verbs) > 0 || slices.Contains(d.Rule.Verbs, "*") {
			c.Unused = append(c.Unused, u)
		}
	}
	return c
}

// Near returns the position where a marker for a request belongs: that of a marker for the same
// resource, of the same group, or of the last marker. It returns false if there are no markers.
func Near(declared []rbac.Declaration, r Request) (token.Position, bool) {
	resource, _, _ := strings.Cut(r.Resource, "/")
	var near token.Position
	best := 0
	for _, d := range declared {
		score := 1
		if r.URL == "" && slices.Contains(d.Rule.APIGroups, r.Group) {
			score = 2
			if slices.ContainsFunc(d.Rule.Resources, func(granted string) bool {
				granted, _, _ = strings.Cut(granted, "/")
				return granted == resource
			}) {
				score = 3
			}
		}
		if score >= best {
			near, best = d.Pos, score
		}
	}
	return near, best > 0
}

// unused returns the verbs of a declaration that requests did not need.
func unused(d rbac.Declaration, requests []Request) Unused {
	u := Unused{Declaration: d}
	for _, r := range requests {
		if allows(d.Namespace, d.Rule, r) && !slices.Contains(u.Used, r.Verb) {
			u.Used = append(u.Used, r.Verb)
		}
	}
	slices.Sort(u.Used)
	for _, verb := range d.Rule.Verbs {
		listed := verb == "list" && slices.Contains(u.Used, "watch") // see Roles
		if verb != "*" && !listed && !slices.Contains(u.Used, verb) && !invisible(d.Rule, verb) {
			u.Verbs = append(u.Verbs, verb)
		}
	}
	return u
}

// invisible reports whether the server checks a rule without a request for it.
func invisible(rule rbacv1.PolicyRule, verb string) bool {
	finalizers := slices.ContainsFunc(rule.Resources, func(r string) bool {
		return strings.HasSuffix(r, "/finalizers")
	})
	return finalizers && verb == "update" || verb == "escalate" || verb == "bind" || verb == "impersonate"
}

// String describes a request as a rule: create pods/eviction, list deployments.apps.
func (r Request) String() string {
	if r.URL != "" {
		return r.Verb + " " + r.URL
	}
	resource, sub, isSub := strings.Cut(r.Resource, "/")
	s := r.Verb + " " + resource
	if r.Group != "" {
		s += "." + r.Group
	}
	if isSub {
		s += "/" + sub
	}
	if r.Namespace != "" {
		s += " in namespace " + r.Namespace
	}
	return s
}

// String describes an unused rule with its position.
func (u Unused) String() string {
	what := strings.Join(append(slices.Clone(u.Rule.Resources), u.Rule.NonResourceURLs...), ",")
	switch {
	case len(u.Used) == 0:
		return fmt.Sprintf("%v: unused: %s of %s", u.Pos, strings.Join(u.Rule.Verbs, ";"), what)
	case len(u.Verbs) == 0:
		return fmt.Sprintf("%v: only %s of %s is used, not *", u.Pos, strings.Join(u.Used, ";"), what)
	}
	return fmt.Sprintf("%v: unused: %s of %s", u.Pos, strings.Join(u.Verbs, ";"), what)
}
