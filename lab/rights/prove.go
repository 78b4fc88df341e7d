package rights

import (
	"context"
	"slices"

	"kelson.dev/toolchain/gen/rbac"
)

// General returns requests without their namespaces, because these are the namespaces of tests and
// samples. It keeps namespaces for which a marker declares a Role.
func General(requests []Request, declared []rbac.Declaration) []Request {
	var all []Request
	for _, r := range requests {
		if !slices.ContainsFunc(declared, func(d rbac.Declaration) bool { return d.Namespace == r.Namespace }) {
			r.Namespace = ""
		}
		all = append(all, r)
	}
	return Union(all)
}

// Union returns the different requests of lists, sorted.
func Union(lists ...[]Request) []Request {
	all := slices.Concat(lists...)
	slices.SortFunc(all, compare)
	return slices.Compact(all)
}

// Proof reports whether roles are the least that an operator needs.
type Proof struct {
	// Refused are the requests that were refused under the roles; empty: the roles are sufficient.
	Refused []Request
	// Shown are the permissions that a run needed: the operator sent a request that no other
	// permission allows, or its request was refused without the permission. NotShown are the
	// others.
	Shown, NotShown []Request
	// Runs is the number of runs.
	Runs int
}

// Run has the requests of a run under roles, and those of them that RBAC refused.
type Run struct{ Requests, Refused []Request }

// Prove runs an operator under roles that allow only the requests. The run shows that the roles are
// sufficient, and it shows the permissions that the operator used again and that no other
// permission implies. Prove then runs the operator without all the others at the same time, and
// repeats this while requests are refused, because the operator may send the requests of some
// permissions only in some runs.
//
// run runs the operator with roles. If all is false, it may end at the first refusal. If the roles
// are not sufficient, Prove returns after the first run. again, if not nil, is called before each
// other run, with the permissions that are missing in it.
func Prove(ctx context.Context, name string, requests []Request, names Names,
	run func(ctx context.Context, roles []rbac.Role, all bool) (Run, error),
	again func(without []Request)) (Proof, error) {
	p := Proof{Runs: 1}
	first, err := run(ctx, exactRoles(name, requests, names), true)
	if p.Refused = first.Refused; err != nil || len(p.Refused) > 0 {
		return p, err
	}
	var open []Request // neither shown nor tried
	for _, r := range requests {
		switch {
		case len(Compare([]Request{r}, exactRoles(name, without(requests, []Request{r}), names), nil).Missing) == 0:
			p.NotShown = append(p.NotShown, r) // another permission implies it
		case slices.Contains(first.Requests, r):
			p.Shown = append(p.Shown, r)
		default:
			open = append(open, r)
		}
	}
	for len(open) > 0 {
		if again != nil {
			again(open)
		}
		p.Runs++
		next, err := run(ctx, exactRoles(name, without(requests, open), names), false)
		if err != nil {
			return p, err
		}
		left := without(open, next.Refused)
		if len(left) == len(open) {
			break
		}
		p.Shown, open = append(p.Shown, without(open, left)...), left
	}
	p.Shown, p.NotShown = Union(p.Shown), Union(p.NotShown, open)
	return p, nil
}

// without returns the requests that are not in a list.
func without(requests, list []Request) []Request {
	return slices.DeleteFunc(slices.Clone(requests), func(r Request) bool { return slices.Contains(list, r) })
}
