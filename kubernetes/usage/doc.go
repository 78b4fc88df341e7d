// Package usage serves metrics.k8s.io: how much processor time and memory the pods and nodes of a
// control plane use, for kubectl top and HorizontalPodAutoscalers.
//
// The usage of a container of the process runtime is measured: it is that of the container's
// process and all of its descendants. The usage of a simulated container is declared by an
// annotation of its pod; see [ParseProfile]. The usage of a node is the sum of its pods'.
//
// Everything is computed when a client asks. Nothing runs between requests, and without requests
// the package needs only the memory of two [resource.Resource] values.
//
//	resources := usage.Resources(usage.Config{Store: st, Node: ours})
//	registry.Put(resources...)
package usage
