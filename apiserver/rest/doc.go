// Package rest is the verbs over a [resource.Resource]: get, list, watch, create, update, patch, delete, deletecollection, and
// subresources.
//
// A [Handler] serves every kind that the registry holds at the time of the request; it knows nothing of a kind but its Resource.
// It expects the request's RequestInfo and user in the context (package chain puts them there), and is at the same time
// [resource.Objects], the verbs for callers in process.
//
//	      ServeHTTP
//	          │  RequestInfo → Resource, version, subresource → scope
//	          ▼
//	get list watch ──────────────▶ store.Snapshot, store.Cursor ──▶ stored bytes ─▶ package wire
//	create update patch delete
//	    decode → mutating admission → strategy (defaults, preparation, validation) → validating admission → hooks
//	          → store.Commit at the revision that was read ──▶ stored bytes ─▶ package wire
//
// Writes are optimistic. A write that finds another revision than it was computed from is computed again from the newer state,
// which gives 409 only where the client named the resourceVersion. A write that changes nothing is not stored.
//
// Objects are bytes. In the storage version and JSON an answer is a copy of what is stored; other forms are made once per
// revision and shared ([store.Object.Memo], [store.Event.Memo]). A watch runs in its request's goroutine over a [store.Cursor].
//
// A Handler is safe for concurrent use.
//
//	h := rest.New(rest.Config{Store: st, Registry: registry})
//	http.Handle("/", chain.New(chain.Config{Resources: h, …}))
package rest
