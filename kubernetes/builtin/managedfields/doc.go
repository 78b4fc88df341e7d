// Package managedfields keeps track of who set which fields of built-in objects: what the managedFields of their metadata say.
//
//	manager := fieldsets.New(fieldsets.Config{Library: library, Scheme: scheme, Kind: gvk, Hub: hub, Shape: shape, …})
//	next := manager.UpdateNoErrors(live, next, "kubectl-create")
//	next, err := manager.Apply(live, config, "my-operator", force)
//
// What the outcome is, is for Kubernetes' own field manager to say (k8s.io/apimachinery/pkg/util/managedfields), and for the merge library
// below it. They find the fields of a new object by comparing it with an empty one, of an applied one by merging it into that, in several passes over
// trees of values and sets of paths. What is ordinary is done here in one pass, which writes the set as it is encoded: objects that are created, by any
// verb, and configurations that are applied again by the same manager. The rest, and every error, is the library's; tests hold the
// two together.
package managedfields
