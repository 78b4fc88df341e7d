// Package discovery serves the documents that list which kinds a control plane serves.
//
// [Handler] serves /api, /apis and the paths below that are not resources, in both of Kubernetes'
// forms: one document per group version (legacy), and all groups in one document (aggregated,
// apidiscovery.k8s.io v2). The Accept header selects the form.
//
// Config.Others merges the groups of other servers into /apis and /apis/<group>. Their own
// documents, at /apis/<group>/<version>, are served by those servers; see package aggregator.
//
// The handler creates a document from the registry's current set on first request, encodes it once
// per media type, and caches it until the set changes. All methods are safe for concurrent use.
//
//	handler := discovery.New(discovery.Config{Registry: registry})
//	mux.Handle("/api", handler); mux.Handle("/apis/", handler)
package discovery
