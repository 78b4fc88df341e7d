package resource

// Behavior holds the points on which kube-apiserver answers differently for different kinds. The
// verbs and discovery read these fields and never compare the name of a kind. The zero value
// describes most built-in kinds.
type Behavior struct {
	// DispatchByVerb dispatches requests by the verb of their RequestInfo. Otherwise requests are
	// dispatched by the shape of the path and the method. kube-apiserver's router then checks them
	// first, and its responses 404, 405, 406 and 415 have their own form.
	DispatchByVerb bool
	// NoProtobuf rejects protobuf for bodies and responses.
	NoProtobuf bool
	// TypedItems keeps apiVersion and kind on the items of a list in CBOR.
	TypedItems bool
	// MetadataBookmarks makes a bookmark an object with only metadata. Otherwise it is an empty
	// object of the kind's type, with the fields that the type always encodes.
	MetadataBookmarks bool
	// GenericObjects means that errors do not distinguish objects from lists, because the hubs of
	// both have the same Go type.
	GenericObjects bool
	// IsNamespace makes each object of this cluster-scoped kind a namespace: the path names it as
	// the namespace of the request, and admission sees its creation as a request in that namespace.
	IsNamespace bool
	// QualifiedKind lists the kind with group and version in aggregated discovery.
	QualifiedKind bool
	// NotCached marks kinds that kube-apiserver reads from etcd and not from its watch cache. LIST
	// then applies a limit at resourceVersion 0, and GET reports a malformed resourceVersion with
	// another message.
	NotCached bool
	// ResourceVersionRequired keeps the resourceVersion of an object when a view of it (scale) is
	// written without one. Otherwise such a write is unconditional.
	ResourceVersionRequired bool
	// Delete holds the differences of DELETE.
	Delete DeleteBehavior
}

// DeleteBehavior holds the points on which DELETE differs between kinds.
type DeleteBehavior struct {
	// Preconditions, when not empty, checks preconditions before the strategy runs. It is the first
	// word of the error that reports a failed one.
	Preconditions string
	// OnceHeld makes DELETE return an object unchanged, regardless of the options, if the object is
	// already being deleted and its own rules hold it.
	OnceHeld bool
	// NoPropagation ignores propagation policies.
	NoPropagation bool
	// NoGracePeriod leaves deletionGracePeriodSeconds unset and the generation unchanged when a
	// held object is marked.
	NoGracePeriod bool
	// NotUnsafe answers ignoreStoreReadErrorWithClusterBreakingPotential with an internal error:
	// DELETE of the kind does more than delete from the store.
	NotUnsafe bool
}
