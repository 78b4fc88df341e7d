package authorizers

import (
	"k8s.io/kubernetes/pkg/auth/authorizer/abac"
)

// ABAC returns the authorizer of a policy file, which has one policy per line, as JSON.
func ABAC(path string) (abac.PolicyList, error) { return abac.NewFromFile(path) }
