package store

import "context"

// Shared is an ordered log outside of this process, such as an etcd cluster, that several stores
// write to and read from. A store over a Shared follows the log with its view. A write is committed
// when the log has accepted it.
//
// All methods but Load and Follow must be safe for concurrent use.
type Shared interface {
	// Load calls each for every stored record as of one revision, in any order, and returns that
	// revision. The Data need not contain the resourceVersion.
	Load(ctx context.Context, each func(Record) error) (revision uint64, err error)
	// Follow calls apply for everything that was written after a revision, in order. Each call has
	// all records of one revision; a record with nil Data is a deletion. A call without records
	// reports that no object was written up to the revision. Follow returns when ctx ends or when
	// it can't continue; ErrCompacted means that the log no longer has the history after the
	// revision, so that a retry is pointless.
	Follow(ctx context.Context, after uint64, apply func(revision uint64, records []Record)) error
	// Commit writes all ops as one unit if every key is in the state that its op expects, and
	// returns the unit's revision. Data is written without a resourceVersion; nil Data deletes. If
	// a precondition fails, Commit writes nothing, ok is false, and revision is one at which it
	// failed. After an error the outcome is unknown, unless the error is ErrMalformed or
	// ErrNotWritten.
	Commit(ctx context.Context, ops []Op) (revision uint64, ok bool, err error)
	// Current returns a revision at least as high as that of every Commit, by any store, that was
	// acknowledged before the call.
	Current(ctx context.Context) (uint64, error)
	// Close releases the resources of the Shared.
	Close() error
}

// Spacious is an optional interface of a [Shared]. Space returns an ErrFull while the log refuses
// writes because it has no space, or the error of finding that out.
type Spacious interface {
	Space(ctx context.Context) error
}

// Space returns an ErrFull while a [Shared] that reports its space refuses writes. Other backends
// report it with Failed.
func (s *Store) Space(ctx context.Context) error {
	if f, ok := s.driver.(*follower); ok {
		if shared, ok := f.shared.(Spacious); ok {
			return shared.Space(ctx)
		}
	}
	return nil
}

// Follows reports whether the store is over a [Shared]. Then all ops of a Commit get one revision,
// and revisions have gaps where other clients write to other parts of the log.
func (s *Store) Follows() bool {
	_, ok := s.driver.(*follower)
	return ok
}
