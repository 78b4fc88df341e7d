// Package managedfields tracks which manager set which fields of built-in objects, as
// metadata.managedFields records it.
//
//	manager, err := managedfields.New(managedfields.Config{Library: library, Scheme: scheme, Kind: gvk, Hub: hub, Shape: shape, …})
//	next := manager.UpdateNoErrors(live, next, "kubectl-create")
//	next, err := manager.Apply(live, config, "my-operator", force)
//
// Kubernetes' own field manager (k8s.io/apimachinery/pkg/util/managedfields), with the merge
// library below it, defines the results. It finds the fields of a new object by comparing it with
// an empty one, and those of an applied one by merging, in several passes over trees of values and
// field sets.
//
// This package is a fast path for the common writes: objects that are created, by any verb, and
// configurations that the same manager applies again. One pass writes the encoded field set. It
// passes all other writes, and all errors, to the library. TestManagerMatchesLibrary compares the
// two.
package managedfields
