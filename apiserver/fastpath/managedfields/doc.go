// Package managedfields tracks which manager set which fields of custom objects, as
// metadata.managedFields records it.
//
//	manager := managedfields.New(managedfields.Config{Library: library, Types: types, Kind: gvk, Cache: cache, …})
//	next := manager.UpdateNoErrors(live, next, "kubectl-edit")
//	next, err := manager.Apply(live, config, "my-operator", force)
//
// Kubernetes' own field manager (k8s.io/apimachinery/pkg/util/managedfields), with the merge
// library below it, defines the results. It serves all kinds and all versions of an object at once.
// It spends most of its time on conversions: from maps to Go types, to JSON, to field sets and
// back, although most objects of a kind have the same few field sets.
//
// This package is a fast path for the common writes: those of objects whose managers all wrote in
// the manager's version. It works on the maps themselves and remembers field sets ([Cache]). It
// passes all other writes, and all errors, to the library. TestManagerMatchesLibrary compares the
// two.
package managedfields
