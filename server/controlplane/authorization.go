package controlplane

import (
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/server/authz"
)

// Authorization says who may do what.
type Authorization struct{}

// newAuthorizer makes what decides whether a caller may do what it asks for.
func (p *ControlPlane) newAuthorizer(Config) (authorizer.Authorizer, error) {
	return authz.Basic(), nil
}
