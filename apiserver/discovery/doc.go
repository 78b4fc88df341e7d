// Package discovery serves the list of kinds that a control plane serves.
//
// [Handler] answers /api, /apis and the paths below that are not resources, in
// both forms Kubernetes has: one document per group version (legacy), and all
// groups in one document (aggregated, apidiscovery.k8s.io v2,
// chosen by the Accept header).
//
// Documents are made of the registry's current set when they are first asked
// for, encoded once per media type, and kept until the set changes. All methods
// are safe for concurrent use.
//
//	handler := discovery.New(registry)
//	mux.Handle("/api", handler); mux.Handle("/apis/", handler)
package discovery
