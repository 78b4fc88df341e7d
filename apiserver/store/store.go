// Package store keeps every object of a control plane as a view of one ordered log.
//
// All writes of all kinds pass through one committer, which checks their
// preconditions against the newest state (writes queued before them included),
// gives each the next revision, makes the batch durable through a [Backend],
// and only then publishes it: to the view, to the watch logs, to the writer.
//
//	Commit ──▶ queue ──▶ check ──▶ revision ──▶ Backend.Append (one sync per batch)
//	                                                  │
//	      writer's answer ◀── watch logs ◀── view ◀───┘
//
// The view is an ordered copy-on-write tree, so that a [Snapshot] is taken in
// O(1), is immutable, and may be read by any number of goroutines without locks.
// A [Cursor] reads the watch log; it owns no goroutine and no queue, a slow one
// falls behind alone and is told [ErrCompacted] when what it needs is gone.
//
// Revisions are unique, grow by one with every written object, and are never
// reused. The resourceVersion of an object is the decimal form of its revision.
// A new store is at revision 1, since "0" means "any" to clients.
//
// Each Store has one goroutine, the committer; [Store.Close] ends it. It is
// idle in the sense of testing/synctest when nobody writes. A fork is a Store
// of its own and is closed by who made it.
package store

import (
	"context"
)

// Key names one object. Resource is the group resource in the form
// "pods" or "deployments.apps"; Namespace is empty for cluster scope.
// Keys are ordered by resource, then namespace, then name.
type Key struct {
	Resource  string
	Namespace string
	Name      string
}

// AnyRevision as [Op.Expect] accepts whatever is stored, or nothing.
const AnyRevision = ^uint64(0)

// Op is one intended write.
type Op struct {
	Key Key
	// Data is the object in its storage version as JSON with a metadata
	// object, with or without a resourceVersion: the committer sets it.
	// The store keeps a copy of its own. nil deletes the object, which must
	// be there.
	Data []byte
	// Expect is the precondition: the revision the stored object must have
	// now, 0 for "no object", or AnyRevision.
	Expect uint64
}

// EventType says what a write did to its key.
type EventType uint8

const (
	Added EventType = iota + 1
	Modified
	Deleted
)

// Event is one committed write. It is shared by all readers and never changes.
type Event struct {
	Type EventType
	// Object is the new state. For Deleted it is the last state with the
	// deletion's revision as its resourceVersion (and as Object.Revision).
	Object *Object
	// Prev is the state before; nil for Added.
	Prev *Object

	memo memo
}

// Revision is the revision the write was given.
func (e *Event) Revision() uint64 { return e.Object.Revision }

// Memo returns what make returned the first time Memo was called with this key on this event.
// It is how an event is encoded once for all watchers. Safe for concurrent use; make may run
// more than once under a race, one result wins. An error is not kept. What is kept is given up after
// some hundred more events.
func (e *Event) Memo(key any, make func() (any, error)) (any, error) { return e.memo.get(key, make) }

// Commit applies ops as one unit: all or none, with consecutive revisions, seen
// by no reader in part. (A store that follows a Shared gives them one revision
// together, and takes each key only once: else ErrMalformed.) It returns the new objects in the order of ops (for a
// deletion, the last state with the deletion's revision) once they are durable.
//
// A failed precondition gives a [*ConflictError], which unwraps to ErrNotFound,
// ErrExists or ErrConflict; nothing is written then. Data without metadata, or a
// key without resource or name, gives ErrMalformed; a closed store ErrClosed.
// When ctx ends before the batch is taken, nothing is written and the error is
// that of ctx; after that the outcome is awaited.
// If the backend says that it wrote nothing, because there is no room (ErrFull) or the values can't be encrypted, the error
// unwraps to ErrNotWritten, and later commits may succeed. Every other failure of
// the backend is final for the store: this and all later commits
// give an error that unwraps to ErrFailed, while reads go on.
func (s *Store) Commit(ctx context.Context, ops ...Op) ([]*Object, error) {
	return s.commit(ctx, ops)
}

// Snapshot returns the newest published state. O(1).
func (s *Store) Snapshot() *Snapshot { return s.snapshot() }

// At returns the state as it was at a revision, if that is still retained:
// ErrCompacted when it is not, ErrFuture when the revision is not yet given.
// Revisions from Pin, and all not older than the watch log, are retained.
// The cost grows with the events since then, unless the revision is pinned or the
// newest. A revision within a Commit of several ops shows it in part.
func (s *Store) At(revision uint64) (*Snapshot, error) { return s.at(revision) }

// Pin retains the snapshot's revision for At for at least five minutes, as pages of a list need.
// The time counts from the first Pin of a revision. The number of pinned snapshots is bounded; the oldest go first.
func (s *Store) Pin(sn *Snapshot) { s.pin(sn) }

// Pinned is At for the pages of a list: it gives ErrCompacted for a revision whose own Pin has ended, or, where that was crowded
// out, that of a newer revision, even if the watch log still has it. So a list does not go on in a state that is older than
// clients of Kubernetes may ever see, however little is written.
func (s *Store) Pinned(revision uint64) (*Snapshot, error) { return s.pinned(revision) }

// Watch returns a cursor over all events of a resource after a revision; the
// resource "" means all. ErrCompacted when events after it may be gone, as those
// are of before the store was opened; ErrClosed after Close.
// A revision in the future is accepted: events up to it are skipped.
func (s *Store) Watch(resource string, after uint64) (*Cursor, error) {
	return s.watch(resource, after)
}

// Fork returns a new store in memory that begins with this snapshot's state and revision. O(1).
func (sn *Snapshot) Fork() *Store { return sn.fork() }
