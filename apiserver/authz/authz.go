// Package authz authorizes requests.
//
// It uses Kubernetes' own authorizer interfaces, so that Kubernetes' libraries can be used. [New]
// returns the chain of authorizers in an AuthorizationConfiguration: each allows, denies, or has no
// opinion. A request that none allows is denied. The group system:masters is allowed everything,
// without a call of any authorizer. [Options] are kube-apiserver's flags for such a configuration.
//
// This package implements the modes AlwaysAllow, AlwaysDeny and Webhook. The caller passes the
// other modes to New: RBAC is in package rbac, Node and ABAC are in kubernetes/authorizers.
//
// Authorizers are safe for concurrent use and start no goroutines.
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

// Authorizer authorizes requests and lists the rules that apply to a user.
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

// Modes maps modes to constructors. New calls those of the modes in a configuration.
type Modes map[string]func() (Authorizer, error)

// both combines two interfaces into an Authorizer.
type both struct {
	authorizer.Authorizer
	authorizer.RuleResolver
}

// New returns the authorizer of a configuration, which must be valid.
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

// Masters returns an authorizer that allows the group system:masters everything and has no opinion
// on other users.
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
