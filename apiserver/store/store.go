// Package store keeps every object of a control plane as a view of one ordered log.
//
// All writes of all kinds pass through one committer. It checks each precondition against the
// newest state, which includes the writes queued before it, and assigns the next revision. It makes
// the batch durable through a [Backend]. Only then does it publish the batch: to the view, to the
// watch logs, and to the writers.
//
//	Commit ──▶ queue ──▶ check ──▶ revision ──▶ Backend.Append (one sync per batch)
//	                                                  │
//	 writer's response ◀── watch logs ◀── view ◀──────┘
//
// The view is an ordered copy-on-write tree. Taking a [Snapshot] is O(1); a Snapshot is immutable
// and any number of goroutines may read it without locks. A [Cursor] reads the watch log. It owns
// no goroutine and no queue: a slow reader falls behind alone, and gets [ErrCompacted] when the
// events it needs are gone.
//
// Revisions are unique, grow by one with every written object, and are never reused. The
// resourceVersion of an object is the decimal form of its revision. A new store is at revision 1,
// because "0" means "any" to clients.
//
// These hold at every moment, and the order of the steps keeps them:
//
//   - A published write is durable. Publication follows the sync, so a reader never sees a write
//     that a crash takes back.
//   - An acknowledged write is published. The writer is woken after the publication, so its next
//     read sees the write.
//   - The newest Snapshot and the watch logs are at one revision. A list at revision R and a watch
//     after R together miss nothing and repeat nothing.
//   - A failed precondition is final only when the batch is durable, because it may have failed
//     against a write of the same batch.
//   - Revisions of a batch that was not written are used again: no reader has seen them.
//
// This is the state after a crash:
//
//	before Append                    the batch does not exist; its writers got no answer
//	during Append                    the whole batch exists, or none of it; no writer got an answer
//	after Append, before an answer   the batch exists; its writers got no answer
//	after an answer                  the write exists
//
// The files in testdata/traces show commits, watches and pages of lists as sequences of commands.
//
// A store over a [Shared] log, such as etcd, works the same way for its readers. Its writes go to
// that log, and the store publishes them when it reads them back from there.
//
// Each Store has one goroutine, which [Store.Close] ends, and another while it has subscriptions
// ([Store.Subscribe]). While no client writes, both are durably blocked, as testing/synctest
// requires. A fork is a separate Store; its creator must close it.
package store

import (
	"context"
)

// Key identifies one object. Resource is the group resource, such as "pods" or "deployments.apps";
// Namespace is empty for cluster-scoped objects. Keys are ordered by resource, then namespace, then
// name.
type Key struct {
	Resource  string
	Namespace string
	Name      string
}

// AnyRevision as [Op.Expect] accepts any stored object, or none.
const AnyRevision = ^uint64(0)

// Op is one requested write.
type Op struct {
	Key Key
	// Data is the object in its storage version, as JSON with a metadata object. The committer sets
	// its resourceVersion, whether or not Data has one. The store keeps a copy. nil deletes the
	// object, which must exist.
	Data []byte
	// Expect is the precondition: the revision that the stored object must have, 0 for "no object",
	// or AnyRevision.
	Expect uint64
	// Check makes the op a precondition of its unit that writes nothing. Data must be nil. If Key
	// has no name, the op is about the whole resource: no object of it was created or changed after
	// the revision Expect. Without a [Shared], no object was deleted either. The result of Commit
	// has nil for the op.
	Check bool
}

// whole reports whether an op checks a whole resource.
func (op *Op) whole() bool { return op.Check && op.Key.Name == "" }

// EventType is the effect of a write on its key.
type EventType uint8

const (
	Added EventType = iota + 1
	Modified
	Deleted
)

// Event is one committed write. It is shared by all readers and never changes.
type Event struct {
	Type EventType
	kept uint8 // the number of logs that have the event; guarded by Store.mu
	// Object is the new state. For Deleted, it is the last state with the revision of the deletion,
	// in Revision and in Data.
	Object *Object
	// Prev is the previous state; nil for Added.
	Prev *Object

	memo memo
}

// Revision returns the revision of the write.
func (e *Event) Revision() uint64 { return e.Object.Revision }

// Commit applies ops as one unit: all or none, with consecutive revisions, and no reader sees a
// part of it. A store over a [Shared] gives all ops of a unit the same revision, and returns
// ErrMalformed if a key occurs twice. Commit returns the new objects in the order of ops once they
// are durable; for a deletion, that is the last state with the revision of the deletion.
//
// A failed precondition gives a [*ConflictError], which unwraps to ErrNotFound, ErrExists or
// ErrConflict; then nothing is written. Data without metadata, or a key without resource or name,
// gives ErrMalformed. An object larger than MaxObject gives ErrTooLarge, and one nested deeper than
// MaxDepth ErrTooDeep. A closed store gives ErrClosed.
//
// If ctx ends before the committer takes the unit, nothing is written and Commit returns the error
// of ctx. After that, Commit waits for the outcome.
//
// If the backend reports that it wrote nothing, because there is no space (ErrFull) or because the
// values can't be encrypted, the error unwraps to ErrNotWritten and later commits may succeed.
// Every other failure of the backend is final: this and all later commits give an error that
// unwraps to ErrFailed. Reads still work. A store over a Shared never fails permanently;
// ErrUnreachable means that the outcome of a write is unknown.
func (s *Store) Commit(ctx context.Context, ops ...Op) ([]*Object, error) {
	return s.commit(ctx, ops)
}

// Snapshot returns the newest published state. O(1).
func (s *Store) Snapshot() *Snapshot { return s.snapshot() }

// At returns the state at a revision. It returns ErrCompacted if the store has discarded that
// state, and ErrFuture if no write has that revision yet. The watch log retains the newest
// revisions, and Pin retains others. The cost grows with the number of events since then, except
// for pinned revisions and the newest. A revision inside a Commit of several ops shows that unit in
// part.
func (s *Store) At(revision uint64) (*Snapshot, error) { return s.at(revision) }

// Pin retains a snapshot's revision for At for five minutes, for the pages of a list. The time
// starts with the first Pin of a revision. The number of pinned snapshots is bounded, and the
// memory of objects that only they have is a part of the store's budget; the oldest are dropped
// first.
func (s *Store) Pin(sn *Snapshot) { s.pin(sn) }

// Pinned is like At, for the pages of a list. It returns ErrCompacted for a revision whose pin has
// ended, and for any older one, even if the watch log still has it. So a list never continues in a
// state older than Kubernetes allows, however rare writes are.
func (s *Store) Pinned(revision uint64) (*Snapshot, error) { return s.pinned(revision) }

// Watch returns a cursor over all events of a resource after a revision; resource "" means all
// resources. It returns ErrCompacted if events after the revision may be gone, such as those from
// before the store was opened, and ErrClosed after Close. A future revision is accepted: events up
// to it are skipped.
func (s *Store) Watch(resource string, after uint64) (*Cursor, error) {
	return s.watch(resource, after)
}

// Fork returns a new store in memory that begins with this snapshot's state and revision. O(1).
func (sn *Snapshot) Fork() *Store { return sn.fork() }
