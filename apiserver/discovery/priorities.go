package discovery

import "k8s.io/apimachinery/pkg/runtime/schema"

// Priorities order groups, and versions within their group: the highest first, then by name. A
// group has the highest priority of its versions. Clients prefer earlier groups: if two kinds share
// a short name, kubectl uses the kind of the earlier group.
type Priorities struct{ Group, Version int32 }

// A PriorityFunc returns the priorities of a group version that no APIService sets.
type PriorityFunc func(schema.GroupVersion) Priorities

// CustomPriorities is a [PriorityFunc] that gives each group version the priorities of custom kinds
// in kube-apiserver.
func CustomPriorities(schema.GroupVersion) Priorities { return Priorities{Group: 1000, Version: 100} }
