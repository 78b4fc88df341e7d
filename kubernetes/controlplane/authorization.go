package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync"

	upstream "k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/authz/rbac"
	"kelson.dev/kubernetes/authorizers"
	"kelson.dev/kubernetes/identity"
)

// Authorization configures the authorization of requests. The zero value uses the modes Node and
// RBAC.
type Authorization = authz.Options

// newAuthorizer returns the authorizer of requests and the resolver of RBAC rules.
func (p *ControlPlane) newAuthorizer(cfg Config) (authz.Authorizer, rbac.Rules, error) {
	roles, options := rbac.New(p.store), cfg.Authorization
	if options.File == "" && len(options.Modes) == 0 {
		options.Modes = []string{authz.ModeNode, authz.ModeRBAC}
	}
	if err := errors.Join(options.Validate()...); err != nil {
		return nil, rbac.Rules{}, err
	}
	modes := authz.Modes{
		authz.ModeNode: sync.OnceValues(func() (authz.Authorizer, error) { return authorizers.Node(p.store), nil }),
		authz.ModeRBAC: func() (authz.Authorizer, error) { return roles, nil },
		authz.ModeABAC: sync.OnceValues(func() (authz.Authorizer, error) {
			return authorizers.ABAC(options.PolicyFile)
		}),
	}
	var authorizer authz.Authorizer
	var err error
	if options.File == "" {
		authorizer, err = authz.New(options.Configuration(), modes)
	} else {
		authorizer, err = authz.Open(options.File, authorizers.Parse, modes, func(err error) {
			cfg.Log.Error("reload authorization configuration; continuing with the previous one", "err", err)
		})
	}
	if err != nil {
		return nil, rbac.Rules{}, fmt.Errorf("create authorizers: %w", err)
	}
	own := []upstream.UnconditionalAuthorizer{roles}
	if p.nodes.exist() {
		own = append(own, lazyAuthorizer(modes[authz.ModeNode]))
	}
	return withComponents{authorizer, own}, roles.Rules(), nil
}

// withComponents decides requests of the control plane's own components with the bootstrap roles
// and as those of nodes too, if the configured modes have no opinion. Without the modes RBAC and
// Node, no component could work otherwise.
type withComponents struct {
	authz.Authorizer
	own []upstream.UnconditionalAuthorizer
}

// Authorize implements [authz.Authorizer].
func (w withComponents) Authorize(ctx context.Context, a upstream.Attributes) (upstream.Decision, string, error) {
	decision, reason, err := w.Authorizer.Authorize(ctx, a)
	if decision != upstream.DecisionNoOpinion || !identity.IsComponent(a.GetUser()) {
		return decision, reason, err
	}
	for _, own := range w.own {
		if allowed, why, _ := own.Authorize(ctx, a); allowed == upstream.DecisionAllow {
			return allowed, why, nil
		}
	}
	return decision, reason, err
}

// lazyAuthorizer is an authorizer that is made for the first decision.
type lazyAuthorizer func() (authz.Authorizer, error)

// Authorize implements UnconditionalAuthorizer.
func (l lazyAuthorizer) Authorize(ctx context.Context, a upstream.Attributes) (upstream.Decision, string, error) {
	made, err := l()
	if err != nil {
		return upstream.DecisionNoOpinion, "", err
	}
	return made.Authorize(ctx, a)
}
