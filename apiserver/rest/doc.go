// Package rest implements the verbs over a [resource.Resource]: get, list, watch, create, update,
// patch, delete, deletecollection, and subresources.
//
// A [Handler] serves every kind that the registry holds at the time of the request. It uses only
// the kind's Resource and never compares the name of a kind. It expects the request's RequestInfo
// and user in the context (package filters puts them there). It also implements [resource.Objects],
// the verbs for callers in process.
//
//	      ServeHTTP
//	          │  RequestInfo → Resource, version, subresource → scope
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
