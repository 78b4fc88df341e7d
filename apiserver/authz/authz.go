// Package authz decides what a user may do.
//
// An authorizer is Kubernetes' own interface, so that its libraries fit in. [New] puts those of an AuthorizationConfiguration in a
// row: each may allow, deny or pass the question on, and what nobody allows is refused. The group system:masters may do everything
// before any of them is asked. [Options] are the flags of kube-apiserver from which such a configuration is made.
//
// The modes that need objects or files are given to New: RBAC is in package rbac, Node and ABAC are in kubernetes/authorizers. Those
// that need nothing, AlwaysAllow, AlwaysDeny and Webhook, are here.
//
// Authorizers are safe for concurrent use, and have no goroutines.
//
//	auth, err := authz.New(authz.Options{Modes: []string{"RBAC"}}.Configuration(), authz.Modes{
//		"RBAC": func() (authz.Authorizer, error) { return rbac.New(st), nil },
//	})
package authz

import (
	"errors"
	"fmt"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
)

// Authorizer decides, and lists what it would allow.
type Authorizer interface {
	authorizer.Authorizer
	authorizer.RuleResolver
}

// The modes of kube-apiserver.
const (
	ModeAlwaysAllow = "AlwaysAllow"
	ModeAlwaysDeny  = "AlwaysDeny"
	ModeABAC        = "ABAC"
	ModeWebhook     = "Webhook"
	ModeRBAC        = "RBAC"
	ModeNode        = "Node"
)

// Modes make the authorizers of some modes, when a configuration has them.
type Modes map[string]func() (Authorizer, error)

// both is an Authorizer of two halves.
type both struct {
	authorizer.Authorizer
	authorizer.RuleResolver
}

// New returns the authorizer of a configuration that was found valid.
func New(configuration *apiserver.AuthorizationConfiguration, modes Modes) (Authorizer, error) {
	if len(configuration.Authorizers) == 0 {
		return nil, errors.New("at least one authorization mode must be passed")
	}
	all := []union.NamedAuthorizer{{AuthorizerName: "kubernetes.io/system-privileged-group", Authorizer: Masters()}}
	var rules []authorizer.RuleResolver
	for i := range configuration.Authorizers {
		c := &configuration.Authorizers[i]
		a, err := newMode(c, modes)
		if err != nil {
			return nil, err
		}
		all = append(all, union.NamedAuthorizer{AuthorizerName: c.Name, Authorizer: a})
		rules = append(rules, a)
	}
	together, err := union.New(all...)
	if err != nil {
		return nil, err
	}
	return both{together, union.NewRuleResolvers(rules...)}, nil
}

// Masters allows the group system:masters everything, and has no opinion on others.
func Masters() authorizer.Authorizer {
	return authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)
}

func newMode(c *apiserver.AuthorizerConfiguration, modes Modes) (Authorizer, error) {
	switch c.Type {
	case ModeAlwaysAllow:
		return authorizerfactory.NewAlwaysAllowAuthorizer(), nil
	case ModeAlwaysDeny:
		return authorizerfactory.NewAlwaysDenyAuthorizer(), nil
	case ModeWebhook:
		return newWebhook(c.Name, c.Webhook)
	}
	make, ok := modes[string(c.Type)]
	if !ok {
		return nil, fmt.Errorf("unknown authorization mode %s specified", c.Type)
	}
	return make()
}
