package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Shared is an ordered log outside of this process, such as an etcd cluster, that several stores write to and read from. A store over
// it follows it with its view; what it commits counts when the log has taken it.
//
// All methods but Load and Follow may be called by many goroutines at a time.
type Shared interface {
	// Load calls each with every stored record as of one revision, in any order, and returns that revision. The Data need not contain
	// the resourceVersion.
	Load(ctx context.Context, each func(Record) error) (revision uint64, err error)
	// Follow calls apply with everything that was written after a revision, in order: each call has all records of one revision, those
	// that were deleted with nil Data. A call without records says that nothing was written up to the revision. It returns when ctx
	// ends or the log can't be followed from there: ErrCompacted when that is for good.
	Follow(ctx context.Context, after uint64, apply func(revision uint64, records []Record)) error
	// Commit writes as one unit if every record's key is in the state that it expects, and returns the unit's revision. Data without
	// a resourceVersion is what is to be written; nil deletes. When the state is another one nothing is written, ok is false, and
	// the revision is one at which it was so. An error leaves the outcome unknown, unless it is ErrMalformed.
	Commit(ctx context.Context, ops []Op) (revision uint64, ok bool, err error)
	// Current returns a revision that is not below that of any Commit, by anybody, that was acknowledged before the call.
	Current(ctx context.Context) (uint64, error)
	// Close ends what Shared has started.
	Close() error
}

// Follows says whether the store follows a log that others write to as well. Then all ops of a Commit have one revision, and
// revisions are left out where others write elsewhere in the log.
func (s *Store) Follows() bool { return s.follower != nil }

// follower keeps a store's view up to date with a Shared.
type follower struct {
	shared Shared
	moved  chan struct{} // closed and replaced whenever the view has come further; guarded by Store.mu
	cancel context.CancelFunc
}

// retry is how long the follower waits after an error before it asks again.
const retry = 100 * time.Millisecond

func openShared(cfg Config) (*Store, error) {
	ctx, cancel := context.WithCancel(context.Background())
	v, revision, err := loadShared(ctx, cfg.Shared)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("load store: %w", errors.Join(err, cfg.Shared.Close()))
	}
	s := newStore(v, revision, cfg)
	s.base = revision // what was before, others may have seen, but not we
	s.follower = &follower{shared: cfg.Shared, moved: make(chan struct{}), cancel: cancel}
	go s.follow(ctx)
	return s, nil
}

func loadShared(ctx context.Context, shared Shared) (view, uint64, error) {
	v := newView()
	revision, err := shared.Load(ctx, func(r Record) error {
		obj, err := spliced(r)
		if err == nil {
			v.replace(nil, obj)
		}
		return err
	})
	return v, max(revision, firstRevision), err
}

// spliced makes an object of a record whose Data may lack its resourceVersion.
func spliced(r Record) (*Object, error) {
	obj, err := loadObject(r)
	if err != nil {
		return nil, err
	}
	obj.Data, obj.version = obj.version.splice(obj.Data, r.Revision)
	return obj, nil
}

// follow is the one goroutine that changes the view of a store over a Shared.
func (s *Store) follow(ctx context.Context) {
	defer close(s.done)
	for ctx.Err() == nil {
		err := s.follower.shared.Follow(ctx, s.revision, s.applyShared)
		if errors.Is(err, ErrCompacted) {
			err = s.reload(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("the shared log can't be followed; it is tried again", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(retry):
			}
		}
	}
}

// applyShared publishes what was written at one revision.
func (s *Store) applyShared(revision uint64, records []Record) {
	if revision <= s.revision && len(records) == 0 || revision < s.revision {
		return
	}
	var events []*Event
	for _, r := range records {
		e, err := s.sharedEvent(r)
		if err != nil {
			s.log.Error("the shared log has what is no object; it is left out", "key", r.Key, "revision", r.Revision, "err", err)
			continue
		}
		if e != nil {
			s.view.apply(e)
			events = append(events, e)
		}
	}
	s.revision = revision
	s.publish(events).close()
	s.progress()
}

// sharedEvent makes the event of a record; nil when it changes nothing.
func (s *Store) sharedEvent(r Record) (*Event, error) {
	now, _ := s.view.objects.Get(r.Key.path())
	if r.Data == nil {
		if now == nil {
			return nil, nil
		}
		gone := &Object{Key: now.Key, Revision: r.Revision, Created: now.Created, Head: now.Head, path: now.path}
		gone.Data, gone.version = now.version.splice(now.Data, r.Revision)
		return &Event{Type: Deleted, Object: gone, Prev: now}, nil
	}
	obj, err := spliced(r)
	if err != nil {
		return nil, err
	}
	if now == nil {
		return &Event{Type: Added, Object: obj}, nil
	}
	obj.Key, obj.path = now.Key, now.path
	return &Event{Type: Modified, Object: obj, Prev: now}, nil
}

// progress wakes those who wait for a revision.
func (s *Store) progress() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.follower.moved)
	s.follower.moved = make(chan struct{})
}

// reload takes the state anew after history was lost between us and the log. Nobody can go on from before: cursors get ErrCompacted.
func (s *Store) reload(ctx context.Context) error {
	v, revision, err := loadShared(ctx, s.follower.shared)
	if err != nil {
		return err
	}
	s.view, s.revision = v, max(revision, s.revision)
	sn := s.freeze()
	s.mu.Lock()
	s.current.Store(sn)
	inspect := s.inspect
	s.mu.Unlock()
	err = s.Compact(s.revision)
	if inspect != nil {
		inspect(sn, nil)
	}
	s.progress()
	return err
}

// reach waits until the view has come to a revision.
func (s *Store) reach(ctx context.Context, revision uint64) error {
	for {
		s.mu.RLock()
		now, moved, closed := s.current.Load().revision, s.follower.moved, s.closed
		s.mu.RUnlock()
		switch {
		case now >= revision:
			return nil
		case closed:
			return ErrClosed
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		}
	}
}

// commitShared writes through the log and waits until the view has it, so that who wrote reads what it wrote.
func (s *Store) commitShared(ctx context.Context, ops []Op, drafts []draft) ([]*Object, error) {
	if s.alive.Err() != nil {
		return nil, ErrClosed
	}
	revision, ok, err := s.follower.shared.Commit(ctx, ops)
	if err == nil {
		err = s.reach(ctx, revision)
	}
	if errors.Is(err, ErrMalformed) || errors.Is(err, ErrClosed) || errors.Is(err, ErrNotWritten) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if !ok {
		return nil, s.conflict(ops, revision)
	}
	s.counts.commits.Add(1)
	s.counts.writes.Add(uint64(len(ops)))
	objects := make([]*Object, len(ops))
	for i := range ops {
		if objects[i] = s.written(drafts[i].path, ops[i].Key.Resource, revision); objects[i] == nil {
			return nil, fmt.Errorf("%w: revision %d was written and is not known any more", ErrCompacted, revision)
		}
	}
	return objects, nil
}

// written finds the object that was written at a revision.
func (s *Store) written(path, resource string, revision uint64) *Object {
	if obj, _ := s.current.Load().view.objects.Get(path); obj != nil && obj.Revision == revision {
		return obj
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	l := s.logs[resource]
	if l == nil || revision <= l.floor {
		return nil
	}
	events, _ := l.since(revision - 1)
	for _, e := range events {
		if e.Object.path == path && e.Revision() == revision {
			return e.Object
		}
	}
	return nil
}

// conflict says which op did not fit the state at a revision.
func (s *Store) conflict(ops []Op, revision uint64) error {
	sn, err := s.at(revision)
	if err != nil {
		sn = s.snapshot() // so long ago is that by now
	}
	for i := range ops {
		now := sn.Get(ops[i].Key)
		if reason := refusal(&ops[i], now); reason != nil {
			return &ConflictError{Key: ops[i].Key, Current: now, Reason: reason}
		}
	}
	return &ConflictError{Key: ops[0].Key, Current: sn.Get(ops[0].Key), Reason: ErrConflict}
}

// Fresh returns a state that has everything that was acknowledged, to anybody, before the call. For a store of its own that is the
// newest Snapshot; one over a Shared asks it, which may fail or take until ctx ends.
func (s *Store) Fresh(ctx context.Context) (*Snapshot, error) {
	if s.follower == nil {
		return s.snapshot(), nil
	}
	revision, err := s.follower.shared.Current(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the newest revision: %w", err)
	}
	if err := s.reach(ctx, revision); err != nil {
		return nil, fmt.Errorf("wait for revision %d: %w", revision, err)
	}
	return s.snapshot(), nil
}
