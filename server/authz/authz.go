// Package authz decides what a user may do.
//
// An authorizer is Kubernetes' own interface, so that its libraries fit in. [Basic] needs no objects: it lets the group
// system:masters do everything, lets everybody see what Kubernetes' roles system:public-info-viewer and system:discovery show, and has
// no opinion on the rest, which is a refusal if nobody else has one.
//
// Authorizers are safe for concurrent use.
//
//	chain.New(chain.Config{Authorizer: authz.Basic(), …})
package authz

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Basic returns the authorizer that holds before any role exists.
func Basic() authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if u := a.GetUser(); u != nil && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) {
			return authorizer.DecisionAllow, "", nil
		}
		return publicPaths(ctx, a)
	})
}

// publicPaths allows to read the paths of system:public-info-viewer, and to those whose name is known also those of
// system:discovery.
func publicPaths(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.IsResourceRequest() || a.GetVerb() != "get" || a.GetUser() == nil {
		return authorizer.DecisionNoOpinion, "", nil
	}
	path, groups := a.GetPath(), a.GetUser().GetGroups()
	known := slices.Contains(groups, user.AllAuthenticated)
	switch path {
	case "/healthz", "/livez", "/readyz", "/version", "/version/":
		if known || slices.Contains(groups, user.AllUnauthenticated) {
			return authorizer.DecisionAllow, "", nil
		}
	case "/api", "/apis", "/openapi":
		if known {
			return authorizer.DecisionAllow, "", nil
		}
	}
	for _, prefix := range []string{"/api/", "/apis/", "/openapi/"} {
		if known && strings.HasPrefix(path, prefix) {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}
