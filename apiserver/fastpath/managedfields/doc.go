// Package managedfields tracks which manager set which fields of an object, as
// metadata.managedFields records it.
//
//	manager := managedfields.NewMapManager(managedfields.MapConfig{Library: library, Types: types, Kind: gvk, Cache: cache, …})
//	next := manager.UpdateNoErrors(live, next, "kubectl-edit")
//	next, err := manager.Apply(live, config, "my-operator", force)
//
// Kubernetes' own field manager (k8s.io/apimachinery/pkg/util/managedfields), with the merge
// library below it, defines the results. It serves all kinds and all versions of an object at once.
// It spends most of its time on conversions: from objects to trees of values, to field sets, to
// JSON and back, although most objects of a kind have the same few field sets.
//
// This package is a fast path for the common writes: those of objects whose managers all wrote in
// the manager's version. It passes all other writes, and all errors, to the library. Objects have
// two representations, each with a manager:
//
//	                 MapManager                  StructManager
//	objects          custom: maps                Go structs: built-in kinds, custom servers
//	entries          mapentries.go               structentries.go
//	apply            mapapply.go                 structapply.go
//	values           mapvalues.go                structvalues.go
//	live objects     mapcheck.go                 structcheck.go
//	updates          mapdiff.go                  structupdate.go
//
// Both share the code that does not depend on the representation: the cache of field sets
// ([Cache]), the rules of ownership and conflicts after an update or an apply (owners.go), and the
// walk that merges a configuration (overlay.go). TestManagerMatchesLibrary, here and in
// kelson.dev/kubernetes/builtin, compares each manager with the library.
package managedfields
