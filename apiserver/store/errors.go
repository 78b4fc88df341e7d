package store

import (
	"errors"
	"fmt"
)

var (
	// ErrNotFound means that the key has no object.
	ErrNotFound = errors.New("not found")
	// ErrExists means that the key has an object, but the write expected none.
	ErrExists = errors.New("already exists")
	// ErrConflict means that the object has a different revision than expected.
	ErrConflict = errors.New("revision conflict")
	// ErrCompacted means that the revision is no longer retained.
	ErrCompacted = errors.New("revision compacted")
	// ErrFuture means that no write has the revision yet.
	ErrFuture = errors.New("revision in the future")
	// ErrClosed means that the store is closed.
	ErrClosed = errors.New("store closed")
	// ErrFailed means that the backend failed; the store rejects all further writes.
	ErrFailed = errors.New("store failed")
	// ErrNotWritten means that no part of a Commit was or will be written; the store accepts
	// further writes.
	ErrNotWritten = errors.New("nothing was written")
	// ErrFull is an ErrNotWritten because the backend has no space. The store accepts writes again
	// as soon as there is space.
	ErrFull = fmt.Errorf("no space left for the state: %w", ErrNotWritten)
	// ErrUnreachable means that a Shared did not respond; whether a write happened is unknown.
	ErrUnreachable = errors.New("no answer from the shared log; write outcome unknown")
	// ErrMalformed means that an Op is not one JSON object with metadata of the usual types, or its
	// key is invalid.
	ErrMalformed = errors.New("malformed object")
	// ErrLocked means that another process uses the data directory.
	ErrLocked = errors.New("in use by another process")
)

// ConflictError describes the failed precondition of one Op. It unwraps to Reason.
type ConflictError struct {
	Key Key
	// Current is the object that the op found; nil if there was none. It is published, unless an
	// earlier op of the same Commit wrote it.
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
	// Floor is the oldest revision after which a Cursor can begin.
	Floor uint64
}

func (e *CompactedError) Error() string {
	return fmt.Sprintf("%v: only events after %d are retained", ErrCompacted, e.Floor)
}

func (e *CompactedError) Unwrap() error { return ErrCompacted }
