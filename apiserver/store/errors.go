package store

import (
	"errors"
	"fmt"
)

var (
	// ErrNotFound says that there is no object under the key.
	ErrNotFound = errors.New("not found")
	// ErrExists says that there is an object where none was expected.
	ErrExists = errors.New("already exists")
	// ErrConflict says that the object has another revision than expected.
	ErrConflict = errors.New("revision conflict")
	// ErrCompacted says that a revision is no longer retained.
	ErrCompacted = errors.New("revision compacted")
	// ErrFuture says that a revision has not been given yet.
	ErrFuture = errors.New("revision in the future")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("store closed")
	// ErrFailed says that the backend failed; the store takes no more writes.
	ErrFailed = errors.New("store failed")
	// ErrNotWritten says that nothing of a Commit was written, nor will be, and that the store takes further writes.
	ErrNotWritten = errors.New("nothing was written")
	// ErrFull is the ErrNotWritten of a backend that has no room. The store finds out by itself when there is room again.
	ErrFull = fmt.Errorf("no space left for the state: %w", ErrNotWritten)
	// ErrUnreachable says that a Shared did not answer: whether a write happened is unknown.
	ErrUnreachable = errors.New("the shared state did not answer")
	// ErrMalformed says that an Op is not one object: no JSON object with metadata of the usual types, or no proper key.
	ErrMalformed = errors.New("malformed object")
	// ErrLocked says that another process uses the data directory.
	ErrLocked = errors.New("in use by another process")
)

// ConflictError is a failed precondition of one Op.
type ConflictError struct {
	Key Key
	// Current is the object that the op met; nil when there was none. It is published, unless an earlier op of the same Commit made it.
	Current *Object
	// Reason is ErrNotFound, ErrExists or ErrConflict.
	Reason error
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s %s/%s: %v", e.Key.Resource, e.Key.Namespace, e.Key.Name, e.Reason)
}

func (e *ConflictError) Unwrap() error { return e.Reason }

// CompactedError is the ErrCompacted of a Cursor.
type CompactedError struct {
	// Floor is the oldest revision that a Cursor can begin after.
	Floor uint64
}

func (e *CompactedError) Error() string {
	return fmt.Sprintf("%v: events after %d are kept", ErrCompacted, e.Floor)
}

func (e *CompactedError) Unwrap() error { return ErrCompacted }
