// Package authorizers provides Kubernetes' own authorizers: Node, whose graph is fed from the
// store; ABAC, with its policy file; and the parser of AuthorizationConfigurations.
//
// Before Node decides a node's request, it adds everything to the graph that was written since the
// previous one; so a node can read the secrets of a pod as soon as the pod is bound to it. If no
// node sends requests, it reads nothing. It has no goroutine.
//
// Authorizers are safe for concurrent use.
//
//	authz.New(configuration, authz.Modes{
//		"Node": func() (authz.Authorizer, error) { return authorizers.Node(st), nil },
//		"ABAC": func() (authz.Authorizer, error) { return authorizers.ABAC("policy.jsonl") },
//		…
//	})
package authorizers
