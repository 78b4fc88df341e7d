// Package informer keeps a local, indexed copy of the objects of a kind and calls handlers when
// objects change.
//
// # Model
//
//	server ──list, watch──▶ reflector ──▶ copy (indexed) ──▶ a buffer per handler ──▶ handler
//	   ▲                                   │   ▲
//	   │                                   ▼   └── overlay: own writes that the watch has not delivered
//	   └────────writes──────────── Informers.Client ◀── reads
//
// [Informers] has one informer per kind and object type (Go type, dynamic, metadata only). Each
// follows its part of the server ([Scope]) by one watch, shared by all users. An informer starts on
// first use and ends when its last handler is removed. An informer that was read from ends only
// after [Informers].Remove, and one with an index does not end.
//
// # Read your own writes
//
// [Informers.Client] reads from the copies and writes to the server. Its reads never return a state
// older than its own writes: the response to each write, including a delete, overlays the copy
// until the informer has caught up with its resourceVersion. If the response can't be overlaid
// (another object type, a subresource with a different response), a read waits for the informer for
// a second and then reads from the server. After a write whose response was lost, or that failed
// with 5xx, the next read of the object reads it from the server first; if that fails, the read
// fails. Reads with client.Live always go to the server. Results are private copies.
//
// [Informer] and [Lister] show the same writes if they were made with the object type (Go type,
// dynamic, metadata only) that is read, because they can neither wait nor send requests. They show
// a write with another object type when the watch delivers it; metadata-only ones show all writes.
// Their results are shared. Handlers get only what the server has sent.
//
// All methods are safe for concurrent use. Goroutines run within Run and end with it.
//
// The files in testdata/traces show what clients and handlers see when watches are late, end, or
// start again.
//
//	informers, err := informer.New(informer.Config{Client: direct})
//	go informers.Run(ctx)
//	c := informers.Client()
//	err = c.Create(ctx, pod)
//	pods, err := client.List[corev1.Pod](ctx, c, client.InNamespace("default")) // has the pod
package informer

import (
	"context"
	"time"

	"kelson.dev/operator/client"
)

// Handler receives the changes of one kind, in order per object. Each handler has its own buffer
// and goroutine: a slow handler delays no other and misses nothing. Objects are shared: handlers
// must not modify them.
type Handler interface {
	// OnAdd is called for an object that is new to the handler. initial is true for objects that
	// existed when the handler was added.
	OnAdd(obj client.Object, initial bool)
	OnUpdate(old, obj client.Object)
	// OnDelete gets the last known state. stale is true if the deletion event was missed, so that
	// the final state may differ.
	OnDelete(obj client.Object, stale bool)
}

// KnownHandler is a Handler that also gets the time since which reads return a change.
type KnownHandler interface {
	Handler
	// OnKnown is called instead of OnUpdate, and instead of OnAdd for objects that are not initial
	// (old is then nil). since is a time before the call: all reads of the object after it, through
	// Informers.Client or the Informer, return obj or a later state. Handlers can be late, and this
	// process can read its own writes as soon as they return. Once the kind has had more than one
	// informer, the time is not known, and OnAdd or OnUpdate is called.
	OnKnown(old, obj client.Object, since time.Time)
}

// Registration is the subscription of a handler.
type Registration interface {
	// Synced is closed after the handler has received all objects that existed when it was added.
	Synced() <-chan struct{}
	// Remove ends the subscription. It does not wait for a call to the handler that has begun or is
	// about to begin; no other call follows.
	Remove()
}

// Informer is the shared copy of one kind in one scope.
type Informer interface {
	AddHandler(Handler) (Registration, error)
	// AddIndex adds an index function under a name. It can be called at any time.
	AddIndex(name string, index func(obj client.Object) []string) error
	// Synced is closed when the copy has the first complete list.
	Synced() <-chan struct{}
	// Get, List and ByIndex return shared objects, which callers must not modify, in no particular
	// order.
	Get(key client.Key) (client.Object, bool)
	List(namespace string) []client.Object
	ByIndex(name, value string) ([]client.Object, error)
	// Version returns the resourceVersion up to which the copy has all changes of the server; empty
	// before the first complete list, and if the server's versions are not numbers.
	Version() string
}

// RemoveOption is an option of Informers.Remove.
type RemoveOption int

// InUse removes an informer although it has handlers or indexes. Its handlers are not called any
// more.
const InUse RemoveOption = 1

// Informers is the set of shared informers of one client: at most one per kind and object type,
// started on first use and ended when unused.
type Informers interface {
	// For returns the informer of obj's kind. obj may be typed, unstructured or metadata-only; each
	// of these has a separate copy.
	For(obj client.Object) (Informer, error)
	// ScopeOf returns the part of obj's kind that the informers cache.
	ScopeOf(obj client.Object) (Scope, error)
	// Client returns a client that reads from the informers and writes to the server; it reads its
	// own writes. It starts informers as needed and waits for their first sync. Reads with
	// client.Live go to the server.
	Client() client.Client
	// Recording returns c, a client of the same server, with its writes recorded: reads through
	// Client see them. Reads through the result are those of c. Use it if several sets have the
	// objects that a client writes, as in b.Recording(a.Recording(direct)).
	Recording(c client.Client) client.Client
	// Remove ends the informer of obj's kind and object type, if there is one, and saves its memory
	// and watch. The next read or handler starts a new one, which has no indexes. An informer in
	// use ends only with InUse. Otherwise, an informer with indexes stays, and an informer with
	// handlers ends with its last handler.
	Remove(obj client.Object, o ...RemoveOption)
	// Has reports whether an informer has an object with the kind, name and uid of obj, in any
	// form. It starts no informer.
	Has(obj client.Object) bool
	// Run runs all informers until ctx ends.
	Run(ctx context.Context) error
	// Statuses returns the status of every watch, ordered by kind. In a healthy set, all are Synced
	// and have no Err.
	Statuses() []Status
	// WaitForSync waits until all current informers are synced.
	WaitForSync(ctx context.Context) error
	// CatchUp waits until all current informers have everything that the server had when CatchUp
	// was called. Reads are then at least as new as all earlier writes by other processes. Use it
	// before taking over work from another process, which may have written a moment ago.
	//
	// CatchUp compares the copies with the metadata of the objects on the server. For each watch,
	// this takes one request if the copy has reached the server's latest version or has at most 500
	// objects, and otherwise one more per 5,000 objects. It reopens a watch that does not deliver
	// the missing objects within a second. If the server was restored from a backup, CatchUp waits
	// until the copies were read again. Kinds that the server does not serve are skipped.
	CatchUp(ctx context.Context) error
}
