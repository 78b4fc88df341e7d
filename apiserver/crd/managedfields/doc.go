// Package managedfields keeps track of who set which fields of custom objects: what the managedFields of their metadata say.
//
//	manager := fieldsets.New(fieldsets.Config{Library: library, Types: types, Kind: gvk, Cache: cache, …})
//	next := manager.UpdateNoErrors(live, next, "kubectl-edit")
//	next, err := manager.Apply(live, config, "my-operator", force)
//
// What the outcome is, is for Kubernetes' own field manager to say (k8s.io/apimachinery/pkg/util/managedfields), and for the merge library
// below it. That manager is made for all kinds and all versions of an object at once, and spends most of its time between forms: from maps to Go types, from
// these to JSON, from that to sets, and all the way back, for sets that are the same in each object of a kind. So what is ordinary is done
// here, on the maps themselves, with sets that are remembered ([Cache]): writes of objects in the version that all their managers wrote
// in. The rest goes to the library; tests hold the two together.
package managedfields
