package rbac

import (
	"go/token"

	rbacv1 "k8s.io/api/rbac/v1"

	"kelson.dev/toolchain/model"
)

// Declaration is the rule that one marker grants for one resource, or for URLs.
type Declaration struct {
	Namespace string // of the Role; empty: a ClusterRole
	Rule      rbacv1.PolicyRule
	Pos       token.Position // of the marker
}

// Declared returns the rules of all markers, in the order of packages and of their markers.
func Declared(api *model.API) []Declaration {
	var c collector
	for _, p := range api.Packages {
		c.addMarkers(p)
	}
	out := make([]Declaration, len(c.grants))
	for i, g := range c.grants {
		out[i] = Declaration{Namespace: g.to.namespace, Rule: *g.rule, Pos: g.pos}
	}
	return out
}
