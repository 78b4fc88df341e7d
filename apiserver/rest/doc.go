// Package rest implements the verbs over a [resource.Resource]: get, list, watch, create, update,
// patch, delete, deletecollection, and subresources.
//
// A [Handler] serves every kind that the registry holds at the time of the request. It uses only
// the kind's Resource and never compares the name of a kind. It expects the request's RequestInfo
// and user in the context (package filters puts them there). It also implements [resource.Objects],
// the verbs for callers in process.
//
//	      ServeHTTP
//	          │  RequestInfo → target (Resource, version, subresource, object), input, output: a scope
//	          ▼
//	get list watch ────▶ store.Snapshot, store.Cursor ────▶ stored bytes ─▶ package wire
//	create update patch delete
//	    decode → mutating admission → strategy (preparation, validation) → validating admission
//	          → write: hooks, store.Commit at the revision read ────▶ stored bytes ─▶ package wire
//
// Writes are optimistic: a verb computes the new state from the current one and commits it on the
// condition that the object has not changed. The type write is that transaction. It runs the kind's
// hooks, commits what hooks and admission plugins add, and undoes what hooks allocated if it does
// not commit. If another write came first, the verb computes the state again from the newer one;
// the client gets 409 only if it sent a resourceVersion. A write that changes nothing is not
// stored.
//
// # The order of a write
//
// The steps have kube-apiserver's order. Clients see it: of several errors, they get that of the
// first step that fails.
//
//  1. The form of the response, the options, the body. A client that cannot read the response must
//     not cause a write.
//  2. Decoding, with the errors of strict field validation. From here on, the object is a hub.
//  3. The audit log gets the object as the client sent it: before plugins and defaults change it.
//  4. The field manager makes the client own what it sent. Mutating admission comes later, so what
//     a plugin sets has no owner, and a later apply may change it without a conflict.
//  5. Mutating admission.
//  6. The kind's Permit hook, such as the check of RBAC that users grant only rights that they
//     have. Plugins may have added to the object, so this comes after them.
//  7. For an update, the resourceVersion that the client sent. A conflict is reported before errors
//     of validation, which might be due to the older state.
//  8. Early allocations, such as the addresses of a Service: validation expects them.
//  9. The strategy: it sets the fields that the server owns and validates the object.
//  10. An update without changes is recognized here. The state is final but for times of managers,
//     and nothing has an effect yet, except for plugins with side effects.
//  11. Validating admission sees the object that is stored.
//  12. The commit: operations that plugins join, such as the count of a quota, with a lock until
//     the commit ends; other allocations; and the write, on the condition that the object still has
//     the revision that step 4 began with.
//
// If the condition fails, an update continues with step 4 and the newer state. A create does not
// depend on a state, so it only repeats step 12. If a step fails, allocations are undone. A process
// that ends between 8 and 12 has committed nothing: until then, allocations are only in its memory.
//
// # Bytes
//
// Objects are stored as bytes. A response in JSON and the storage version copies the stored bytes;
// other encodings are produced once per revision and shared ([store.Object.Memo],
// [store.Event.Memo]). A watch runs in its request's goroutine over a [store.Cursor].
//
// Each verb has a file of its name. dispatch.go selects the verb, change.go carries out updates of
// stored objects for PUT, PATCH and callers in process, and write.go commits.
//
// A Handler is safe for concurrent use.
//
//	h := rest.New(rest.Config{Store: st, Registry: registry})
//	http.Handle("/", filters.New(filters.Config{Resources: h, …}))
package rest
