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
// A pod that matches a Stage when it is bound to its node, before anything has reported a status,
// is run by Stages alone, as by KWOK. All other pods are run by the simulation until a Stage
// changes their status; from then on, Stages run them. If none matches such a pod when it is
// deleted, its deletion is completed as by a kubelet.
//
// A node that matches a Stage before its readiness was ever reported is reported by Stages alone;
// its Lease is renewed in any case.
//
// Without Stages, the package follows no kind but Stage itself.
package stages
