package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// follower is the driver of a store over a [Shared]. One goroutine applies and publishes what the
// log contains; only that goroutine uses state.
type follower struct {
	state
	store  *Store
	shared Shared
	budget *budget // the store's

	alive context.Context // ends with stop
	end   context.CancelFunc
	done  chan struct{} // closed when the goroutine has ended

	// closed and replaced when the published revision grows; guarded by Store.mu
	moved chan struct{}

	full atomic.Bool // the log had no space for the newest write of data
}

// retry is how long the follower waits after an error before it follows the log again. It logs the
// same error only every logEvery.
const (
	retry    = 100 * time.Millisecond
	logEvery = time.Minute
)

func openShared(cfg Config) (*Store, error) {
	f := &follower{shared: cfg.Shared, moved: make(chan struct{}), done: make(chan struct{})}
	f.alive, f.end = context.WithCancel(context.Background())
	var err error
	refuse := func(err error) error { return err }
	f.budget = newBudget(cfg.Budget)
	if f.state, err = f.load(f.alive, refuse); err != nil {
		f.end()
		return nil, fmt.Errorf("load store: %w", errors.Join(err, cfg.Shared.Close()))
	}
	f.store = newStore(f.state, cfg, f.budget)
	f.store.base = f.revision // other stores may have written before, even at the first revision
	f.store.driver = f
	go f.run()
	return f.store, nil
}

// load returns the state in the log. It calls malformed with the error of each record that is not
// an object, and fails if malformed returns an error.
func (f *follower) load(ctx context.Context, malformed func(error) error) (state, error) {
	v := newView()
	revision, err := f.shared.Load(ctx, func(r Record) error {
		obj, err := spliced(r, f.budget)
		if err != nil {
			return malformed(err)
		}
		v.replace(nil, obj)
		return nil
	})
	return state{v, max(revision, firstRevision)}, err
}

// spliced returns the object of a record whose Data may lack its resourceVersion.
func spliced(r Record, b *budget) (*Object, error) {
	obj, err := loadObject(r, b)
	if err != nil {
		return nil, err
	}
	obj.Data, obj.version = obj.version.splice(obj.Data, r.Revision)
	obj.measure()
	return obj, nil
}

// run is the follower's goroutine.
func (f *follower) run() {
	defer close(f.done)
	var logged string
	var at time.Time
	for f.alive.Err() == nil {
		err := f.shared.Follow(f.alive, f.revision, f.apply)
		if errors.Is(err, ErrCompacted) {
			err = f.reload(f.alive)
		}
		if err != nil && f.alive.Err() == nil {
			if err.Error() != logged || time.Since(at) >= logEvery {
				f.store.log.Warn("follow shared log failed; retrying", "err", err)
				logged, at = err.Error(), time.Now()
			}
			select {
			case <-f.alive.Done():
			case <-time.After(retry):
			}
		}
	}
}

// apply publishes what was written at one revision.
func (f *follower) apply(revision uint64, records []Record) {
	if revision <= f.revision && len(records) == 0 || revision < f.revision {
		return
	}
	var events []*Event
	for _, r := range records {
		e, err := f.event(r)
		if err != nil {
			_ = f.skip(err)
			continue
		}
		if e != nil {
			f.view.apply(e)
			events = append(events, e)
		}
	}
	f.revision = revision
	f.store.publish(f.freeze(f.store.config), events).close()
	f.progress()
}

// skip logs that a record is not an object. Another program wrote it.
func (f *follower) skip(err error) error {
	f.store.log.Error("skipping malformed record in shared log", "err", err)
	return nil
}

// event returns the event of a record, or nil if the record deletes an object that does not exist.
func (f *follower) event(r Record) (*Event, error) {
	now, _ := f.view.objects.Get(r.Key.path())
	if r.Data == nil {
		if now == nil {
			return nil, nil
		}
		gone := &Object{Key: now.Key, Revision: r.Revision, Created: now.Created, Head: now.Head, path: now.path,
			budget: f.budget}
		gone.Data, gone.version = now.version.splice(now.Data, r.Revision)
		e := &Event{Type: Deleted, Object: gone, Prev: now}
		e.measure()
		return e, nil
	}
	obj, err := spliced(r, f.budget)
	if err != nil {
		return nil, err
	}
	e := &Event{Type: Added, Object: obj}
	if now != nil {
		obj.Key, obj.path = now.Key, now.path
		e.Type, e.Prev = Modified, now
	}
	e.measure()
	return e, nil
}

// progress wakes the goroutines in reach.
func (f *follower) progress() {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	close(f.moved)
	f.moved = make(chan struct{})
}

// reload replaces the state after the log has lost history that the follower needs. Events are
// missing then, so all cursors get ErrCompacted. Malformed records are skipped, as by apply: the
// store could not continue otherwise.
func (f *follower) reload(ctx context.Context) error {
	st, err := f.load(ctx, f.skip)
	if err != nil {
		return err
	}
	st.revision = max(st.revision, f.revision)
	old := f.view
	f.state = st
	s, sn := f.store, f.freeze(f.store.config)
	s.mu.Lock()
	s.current.Store(sn)
	s.budget.resize(sn.view.bytes)
	inspect := s.inspect
	s.mu.Unlock()
	err = s.Compact(f.revision)
	old.objects.Scan(func(_ string, obj *Object) bool {
		s.budget.seal(obj)
		return true
	})
	if inspect != nil {
		inspect(sn, nil)
	}
	f.progress()
	return err
}

// reach blocks until the published state includes a revision.
func (f *follower) reach(ctx context.Context, revision uint64) error {
	for {
		f.store.mu.RLock()
		now, moved, closed := f.store.current.Load().revision, f.moved, f.store.closed
		f.store.mu.RUnlock()
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

// commit writes through the log and returns when the view includes the write, so that writers read
// their own writes.
func (f *follower) commit(ctx context.Context, ops []Op, drafts []draft, _ int) ([]*Object, error) {
	if f.alive.Err() != nil {
		return nil, ErrClosed
	}
	revision, ok, err := f.attempt(ctx, ops)
	for err == nil && !ok {
		if err = f.conflict(ops, revision); err == nil {
			revision, ok, err = f.attempt(ctx, ops)
		}
	}
	if err != nil {
		return nil, err
	}
	f.store.counts.commits.Add(1)
	objects := make([]*Object, len(ops))
	for i := range ops {
		if ops[i].Check {
			continue
		}
		f.store.counts.writes.Add(1)
		if objects[i] = f.written(drafts[i].path, ops[i].Key.Resource, revision); objects[i] == nil {
			return nil, fmt.Errorf("%w: revision %d was written, but its events are no longer retained", ErrCompacted,
				revision)
		}
	}
	return objects, nil
}

// attempt writes through the log and waits until the view includes the revision of the result. ok
// is false if a precondition did not hold.
func (f *follower) attempt(ctx context.Context, ops []Op) (revision uint64, ok bool, err error) {
	revision, ok, err = f.shared.Commit(ctx, ops)
	f.note(ops, ok, err)
	if err == nil {
		err = f.reach(ctx, revision)
	}
	if err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrNotWritten) {
		err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return revision, ok, err
}

// note logs why the log has not accepted a write, because clients don't get the cause. If space has
// run out, it logs that once, and when there is space again.
func (f *follower) note(ops []Op, ok bool, err error) {
	switch {
	case errors.Is(err, ErrFull):
		if !f.full.Swap(true) {
			f.store.log.Error("no space left for a write; nothing was written", "err", err)
		}
	case errors.Is(err, ErrNotWritten):
		f.store.log.Warn("write refused; nothing was written", "err", err)
	// deletions need no space
	case ok && slices.ContainsFunc(ops, func(op Op) bool { return op.Data != nil }):
		if f.full.Swap(false) {
			f.store.log.Info("space is free again; accepting writes")
		}
	}
}

// written returns the object that was written at a revision, or nil if it is no longer retained.
func (f *follower) written(path, resource string, revision uint64) *Object {
	s := f.store
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

// conflict returns a ConflictError for the first op whose precondition fails against the state at a
// revision. If all hold, the log has a record that is not an object under one of the keys; another
// attempt would fail too, so conflict returns an ErrNotWritten. If the store no longer has that
// state and all preconditions hold now, conflict returns nil, and the caller tries the write again.
func (f *follower) conflict(ops []Op, revision uint64) error {
	sn, err := f.store.at(revision)
	if err != nil {
		sn = f.store.snapshot() // already compacted; fall back to the current state
	}
	for i := range ops {
		if ops[i].whole() {
			if changedAfter(sn, ops[i].Key.Resource, ops[i].Expect) {
				return &ConflictError{Key: ops[i].Key, Reason: ErrConflict}
			}
			continue
		}
		now := sn.Get(ops[i].Key)
		if reason := refusal(&ops[i], now); reason != nil {
			return &ConflictError{Key: ops[i].Key, Current: now, Reason: reason}
		}
	}
	if err == nil {
		k := ops[0].Key
		err = fmt.Errorf("%w: %s %s/%s: the shared log has a malformed object of another program: remove it there",
			ErrNotWritten, k.Resource, k.Namespace, k.Name)
		f.store.log.Warn("write refused", "err", err)
		return err
	}
	return nil
}

// changedAfter reports whether an object of a resource has a newer revision than the given one.
func changedAfter(sn *Snapshot, resource string, revision uint64) bool {
	for obj := range sn.Scan(resource, "", Key{}) {
		if obj.Revision > revision {
			return true
		}
	}
	return false
}

func (f *follower) fresh(ctx context.Context) (*Snapshot, error) {
	revision, err := f.shared.Current(ctx)
	if err != nil {
		return nil, fmt.Errorf("get the newest revision of the shared log: %w", err)
	}
	if err := f.reach(ctx, revision); err != nil {
		return nil, fmt.Errorf("wait for revision %d: %w", revision, err)
	}
	return f.store.snapshot(), nil
}

func (f *follower) failed() error { return nil }

func (f *follower) stats(stats *Stats) {
	if m, ok := f.shared.(Measured); ok {
		stats.BackendStats = m.Stats()
	}
}

func (f *follower) stop() {
	f.end()
	<-f.done
}

func (f *follower) close() error {
	f.progress() // goroutines in reach see that the store is closed
	return f.shared.Close()
}
