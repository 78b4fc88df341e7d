// Package rest implements the verbs over a [resource.Resource]: get, list, watch, create, update, patch, delete,
// deletecollection, and subresources.
//
// A [Handler] serves every kind that the registry holds at the time of the request. It uses only the kind's Resource and
// never compares the name of a kind. It expects the request's RequestInfo and user in the context (package filters puts them
// there). It also implements [resource.Objects], the verbs for callers in process.
//
//	      ServeHTTP
//	          │  RequestInfo → Resource, version, subresource → scope
//	          ▼
//	get list watch ──────────────▶ store.Snapshot, store.Cursor ──▶ stored bytes ─▶ package wire
//	create update patch delete
//	    decode → mutating admission → strategy (defaults, preparation, validation) → validating admission → hooks
//	          → store.Commit at the revision that was read ──▶ stored bytes ─▶ package wire
//
// Writes are optimistic. If another write came first, the Handler computes the write again from the newer state; the client
// gets 409 only if it sent a resourceVersion. A write that changes nothing is not stored.
//
// Objects are bytes. A response in JSON and the storage version copies the stored bytes; other encodings are produced once
// per revision and shared ([store.Object.Memo], [store.Event.Memo]). A watch runs in its request's goroutine over a
// [store.Cursor].
//
// Each verb has a file of its name. dispatch.go selects the verb, change.go carries out updates of stored objects for PUT,
// PATCH and callers in process, and commit.go stores the result.
//
// A Handler is safe for concurrent use.
//
//	h := rest.New(rest.Config{Store: st, Registry: registry})
//	http.Handle("/", filters.New(filters.Config{Resources: h, …}))
package rest
