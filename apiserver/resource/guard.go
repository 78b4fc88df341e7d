package resource

import "kelson.dev/apiserver/store"

// Guard is for kinds whose Codec is compiled from a stored object, such as a definition. A request
// keeps the Resource with which it began, so its write may be encoded after the definition has
// changed. The guard detects this when the write is committed, and the verbs encode the object
// again. So every object that is stored after a change of the definition has the form of the new
// definition.
type Guard struct {
	// Check is committed with each write: the definition still has the revision that the Codec was
	// compiled from.
	Check store.Op
	// Renew returns the Resource for the same form of hub after a conflict of Check. current is the
	// definition that is stored now, or nil if it was deleted. It returns nil if the kind, or that
	// form of hub, no longer exists.
	Renew func(current *store.Object) (*Resource, error)
}
