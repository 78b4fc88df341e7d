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
	// Shown are the permissions without which a request was refused. NotShown are the other
	// permissions.
	Shown, NotShown []Request
}

// Prove runs an operator under roles that allow only the requests, and then once without each of
// the permissions. run runs the operator with roles and returns the refused requests. If all is
// false, it may end at the first one. If the roles are not sufficient, Prove returns after the
// first run. tried, if not nil, is called after each other run.
func Prove(ctx context.Context, name string, requests []Request,
	run func(ctx context.Context, roles []rbac.Role, all bool) ([]Request, error),
	tried func(without Request, shown bool)) (Proof, error) {
	var p Proof
	var err error
	if p.Refused, err = run(ctx, exactRoles(name, requests), true); err != nil || len(p.Refused) > 0 {
		return p, err
	}
	for i, r := range requests {
		refused, err := run(ctx, exactRoles(name, slices.Delete(slices.Clone(requests), i, i+1)), false)
		if err != nil {
			return p, err
		}
		if len(refused) > 0 {
			p.Shown = append(p.Shown, r)
		} else {
			p.NotShown = append(p.NotShown, r)
		}
		if tried != nil {
			tried(r, len(refused) > 0)
		}
	}
	return p, nil
}
