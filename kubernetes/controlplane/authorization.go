package controlplane

import (
	"errors"
	"fmt"
	"sync"

	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/authz/rbac"
	"kelson.dev/kubernetes/authorizers"
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
		authz.ModeABAC: sync.OnceValues(func() (authz.Authorizer, error) { return authorizers.ABAC(options.PolicyFile) }),
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
	return authorizer, roles.Rules(), nil
}
