// Package stages runs KWOK's Stages (kwok.x-k8s.io/v1alpha1): it follows the kinds that they name,
// and moves their objects from state to state as package kelson.dev/kubernetes/node/stage decides.
//
//	Stage objects ──compile──▶ Lifecycle per kind
//	                               │ choose
//	object, at every event ────────┴──▶ job: wait for the delay ──▶ actions ──▶ API
//	                                     ▲ a newer event replaces it
//
// Stages of kinds other than Pod and Node apply to all objects. Those of Pods and Nodes apply only
// to simulated nodes and the pods on them, and not while the node is silent.
//
// # Which pods and nodes Stages run
//
// If a pod matches a Stage when it is bound to its node, before it has a status, only Stages run
// it, as in KWOK. The simulation runs all other pods until a Stage changes their status; from then
// on, Stages run them. If no Stage matches such a pod when it is deleted, the controller completes
// the deletion as a kubelet does.
//
// If a node matches a Stage before its readiness was ever reported, only Stages report its status.
// The simulation renews its Lease in any case.
//
// Without Stages, the package follows only the kind Stage.
package stages
