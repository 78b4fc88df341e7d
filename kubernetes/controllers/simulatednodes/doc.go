// Package simulatednodes runs any number of simulated nodes in this process.
//
//	Node with kwok.x-k8s.io/node=fake ──▶ Controller ──▶ node.Agent ──▶ simulated.Runtime
//	                                                         ▲              (one for all nodes)
//	pods of all nodes ──────────── feed ─────────────────────┘
//
// A Node with the annotation of [Annotation], which is KWOK's, is a simulated node: creating the
// object adds a node at run time, and deleting it removes the node. [Config].Groups are created at
// the start. A node keeps the capacity, addresses and system information of its object.
//
// A node with the annotation [AnnotationSilent] stops without reporting it, as a machine that loses
// power or its network does: its Lease is not renewed and its pods do not change. When the
// annotation is removed, the node reports again, and its pods have the state that they would have
// reached by then.
//
// All agents share one runtime and one reader of the store's pods, so a node costs a few goroutines
// and a pod costs the same as on a single node.
package simulatednodes
