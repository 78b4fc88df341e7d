// Package informer keeps a local, indexed copy of the objects of a kind and tells handlers what changed.
//
// # Model
//
//	server ──list, watch──▶ reflector ──▶ copy (indexed) ──▶ a buffer per handler ──▶ handler
//	   ▲                                   │   ▲
//	   │                                   ▼   └── overlay: what this process wrote and the copy has not seen
//	   └────────writes──────────── Informers.Client ◀── reads
//
// [Informers] holds one informer per kind and form (Go type, dynamic, metadata only). Each follows its part of the server ([Scope])
// by one watch, whoever uses it. It starts with its first use and ends when its last handler is removed, unless something has read
// from it or indexed it: a reader holds it for good.
//
// # Read your own writes
//
// [Informers.Client] reads from the copies and writes to the server, and never reads what was before a write of its own: the answer
// to each write, or the deletion, lies over the copy until the informer has caught up with its resourceVersion. Where the answer cannot
// be laid over (another form of the object, a subresource that answers with something else), a read waits for the informer a
// moment, then asks the server. Reads with client.Live always do. What is read is a private copy.
//
// [Informer] and [Lister] show the same writes, if they were made in the form (Go type, dynamic, metadata only) that is read: they can neither wait nor ask.
// A write in another form they show when the informer has it. What they return is shared. Handlers get what the server told, and nothing else.
//
// All is safe for concurrent use. Goroutines run within Run, and end with it.
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

// Handler is told of changes of one kind, in order per object. Each handler has a buffer and goroutine of its own: a slow one
// delays nobody and loses nothing. The objects are shared: handlers must not change them.
type Handler interface {
	// OnAdd is called for an object that the handler has not seen; initial says that it was there when the handler was added.
	OnAdd(obj client.Object, initial bool)
	OnUpdate(old, obj client.Object)
	// OnDelete gets the last known state; stale says that the deletion itself was missed, so the final state may differ.
	OnDelete(obj client.Object, stale bool)
}

// KnownHandler is a Handler that is told since when a change can be read.
type KnownHandler interface {
	Handler
	// OnKnown is called in the place of OnUpdate, and of OnAdd (then old is nil) of what was not there initially. Whoever has read the object through
	// Informers.Client, or the Informer, after the time since has seen obj, or something later. That time is before the call, for a handler may be
	// late; and what this process wrote can be read when the write returns. OnAdd and OnUpdate are called where there is no such time: as soon
	// as there has been more than one informer of the kind.
	OnKnown(old, obj client.Object, since time.Time)
}

// Registration is one handler's subscription.
type Registration interface {
	// Synced is closed when the handler has been given everything that was there when it was added.
	Synced() <-chan struct{}
	// Remove ends the subscription; no call to the handler begins afterwards.
	Remove()
}

// Informer is the shared copy of one kind in one scope.
type Informer interface {
	AddHandler(Handler) (Registration, error)
	// AddIndex adds an index function under a name; allowed at any time.
	AddIndex(name string, index func(obj client.Object) []string) error
	// Synced is closed after the first complete list is in the store.
	Synced() <-chan struct{}
	// Get, List and ByIndex return shared objects that must not be changed, in no order.
	Get(key client.Key) (client.Object, bool)
	List(namespace string) []client.Object
	ByIndex(name, value string) ([]client.Object, error)
}

// Informers is the set of shared informers of one client: at most one per kind and scope, started on first use, ended when nobody
// holds it any longer.
type Informers interface {
	// For returns the informer of obj's kind; obj may be typed, unstructured or metadata-only, and each form is a copy of its own.
	For(obj client.Object) (Informer, error)
	// Client reads from the informers (starting them as needed, waiting for their first sync) and writes to the server;
	// it reads its own writes. Reads with client.Live go to the server.
	Client() client.Client
	// Has says that an informer has an object of obj's kind, name and uid, in whatever form. It starts none.
	Has(obj client.Object) bool
	// Run drives all informers until ctx ends.
	Run(ctx context.Context) error
	// Statuses is how every watch is doing, in the order of kinds. A set that is healthy has only statuses that are Synced and
	// without Err.
	Statuses() []Status
	// WaitForSync waits until every informer known by now is synced.
	WaitForSync(ctx context.Context) error
	// CatchUp waits until every informer known by now has everything that the server had when CatchUp was called. Then what is read is at least as
	// new as what any other process has written before: it is for what takes over work from another process, which may have written a moment ago.
	//
	// It compares the copies with the metadata of the objects on the server: one request for each kind and namespace that is watched where the copy
	// is up to date with the whole server or has 500 objects at most, else one more for each 5,000. A watch that does not bring what is missing within a second is
	// opened again. Of a kind that the server does not serve, nothing is missing.
	CatchUp(ctx context.Context) error
}
