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
//
// # What the library computes
//
// A write has a set of changed fields: those that it sets to another value or adds (set), and those
// that it removes (removed). After it,
//
//   - the writer owns what it set, in addition to what it owned before (update), or exactly the
//     fields of its configuration (apply);
//   - every other manager has lost the fields in set and removed, and the writer those in removed;
//   - a manager without fields has no entry.
//
// An apply that would change a field of another manager is a conflict, unless it is forced. An
// apply that no longer has a field that its manager applied before removes the field, if no other
// manager owns it. An example, with the fields of a ConfigMap:
//
//	write                         alice (apply)   bob (update)   value of data.a
//	alice applies a=1, b=1        a, b                           1
//	bob updates a=2               b               a              2
//	alice applies a=1, b=1        conflict with bob: nothing is written
//	alice applies b=1             b               a              2: alice did not own a any more
//	alice forces a=3, b=1         a, b            –              3
//
// # Where this package gives up
//
// A step returns ok = false instead of a guess, and the library then computes the write from the
// beginning. This is why no step may change the live object or its owners in place: both must be
// complete for the library. The steps give up
//
//   - before the write: an entry of another version, or one that the schema does not have;
//   - in the walk over the values: a field that the object lacks, a value that the schema does not
//     have, elements in another order, a null;
//   - after it: an apply that gives up fields, an eleventh Update manager, which the library merges
//     with the oldest one.
//
// # Encoded sets
//
// Objects of a kind have few different sets of fields. [Cache] stores each once: its JSON, which an
// entry has, and its tree, which the rules of ownership need and which is decoded from the JSON
// when a rule first needs it. Two owners with equal sets share one pointer, so most comparisons of
// sets compare pointers. Sets are never changed; a rule that needs another set looks it up in the
// cache.
package managedfields
