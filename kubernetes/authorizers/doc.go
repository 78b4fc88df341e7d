// Package authorizers has the authorizers that are Kubernetes' own: Node by its graph, which is fed from the store; ABAC by its policy
// file; and the reading of an AuthorizationConfiguration.
//
// The graph takes in what was written since the last request of a node before it decides the next one: a pod that was bound to a node
// shows its secrets to it at once. As long as no node asks, nothing is read, and there is no goroutine.
//
// Authorizers are safe for concurrent use.
//
//	authz.New(configuration, authz.Modes{
//		"Node": func() (authz.Authorizer, error) { return authorizers.Node(st), nil },
//		"ABAC": func() (authz.Authorizer, error) { return authorizers.ABAC("policy.jsonl") },
//		…
//	})
package authorizers
