package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// request is one Commit on its way through the committer.
type request struct {
	ops    []Op
	drafts []draft
	taken  bool // guarded by queue.mu: from now on it is the committer's
	gone   bool // guarded by queue.mu: its caller does not wait any more

	// Set before done is closed.
	objects []*Object
	err     error
	done    chan struct{}
}

// draft is what can be made of an Op without knowing its revision: work done by the writers, not by the one committer.
type draft struct {
	path    string
	head    Head
	version span
}

func (s *Store) commit(ctx context.Context, ops []Op) ([]*Object, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &request{ops: ops, drafts: make([]draft, len(ops)), done: make(chan struct{})}
	for i := range ops {
		if err := r.drafts[i].make(&ops[i]); err != nil {
			return nil, fmt.Errorf("%s %s/%s: %w", ops[i].Key.Resource, ops[i].Key.Namespace, ops[i].Key.Name, err)
		}
	}
	defer s.counts.waiting.Since(time.Now())
	if s.follower != nil {
		return s.commitShared(ctx, ops, r.drafts)
	}
	if err := s.queue.put(r); err != nil {
		return nil, err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if s.queue.withdraw(r) {
			return nil, ctx.Err()
		}
		<-r.done // the outcome is on its way, and the caller must know it
	}
	return r.objects, r.err
}

func (d *draft) make(op *Op) error {
	if !op.Key.valid() {
		return fmt.Errorf("%w: not a key", ErrMalformed)
	}
	d.path = op.Key.path()
	if op.Data == nil {
		return nil
	}
	var err error
	d.head, d.version, err = scanHead(op.Data)
	return err
}

// queue holds the requests that the committer has not taken yet.
type queue struct {
	mu      sync.Mutex
	pending []*request
	closed  bool
	wake    chan struct{} // of capacity 1: a token says that there is something to see
}

func (q *queue) put(r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	q.pending = append(q.pending, r)
	if len(q.pending) == 1 {
		q.signal()
	}
	return nil
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending)
}

// withdraw takes a request back, if the committer has not taken it.
func (q *queue) withdraw(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.gone = !r.taken
	return r.gone
}

// take waits for requests and returns all there are; ok is false when there never will be another.
// The caller gives back the slice of the last batch.
func (q *queue) take(last []*request) (batch []*request, ok bool) {
	clear(last)
	for {
		q.mu.Lock()
		if len(q.pending) > 0 {
			batch, q.pending = q.pending, last[:0]
			live := batch[:0]
			for _, r := range batch {
				if !r.gone {
					r.taken = true
					live = append(live, r)
				}
			}
			q.mu.Unlock()
			clear(batch[len(live):])
			return live, true
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return nil, false
		}
		<-q.wake
	}
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

// run is the committer.
func (s *Store) run() {
	defer close(s.done)
	var batch []*request
	for ok := true; ; {
		if batch, ok = s.queue.take(batch); !ok {
			return
		}
		if len(batch) == 0 {
			continue // all were withdrawn
		}
		wake := s.process(batch)
		// Who has written goes on before who watches: it has the object at hand that it answers with, and what it makes of that, watches in the same
		// form need not make again. The scheduler runs the one first that was woken last.
		for _, r := range batch[1:] {
			close(r.done)
		}
		wake.close()
		close(batch[0].done)
		if len(batch) > 1 {
			runtime.Gosched() // who was answered now is likely to write again: let all of them into the next batch
		}
	}
}

// process decides the requests of a batch. What it decides is known to nobody until it is durable: conflicts too,
// for they may be with writes of the same batch. It returns who is to be told of it.
func (s *Store) process(batch []*request) (wake waiters) {
	if s.failure != nil {
		return refuse(batch, s.failure)
	}
	var events []*Event
	for _, r := range batch {
		events = s.prepare(r, events)
	}
	err := s.append(events)
	switch {
	case errors.Is(err, ErrNotWritten):
		s.undo(events)
		return s.processAgain(batch, err)
	case err != nil:
		s.fail(err)
		return refuse(batch, err)
	}
	if len(events) > 0 {
		if s.full.Load() != nil {
			s.full.Store(nil)
		}
		s.count(batch, len(events))
		start := time.Now()
		wake = s.publish(events)
		s.counts.publishing.Since(start)
		s.checkpoint()
	}
	return wake
}

func refuse(batch []*request, err error) waiters {
	for _, r := range batch {
		r.objects, r.err = nil, err
	}
	return nil
}

// undo takes back what was not written from the committer's view.
func (s *Store) undo(events []*Event) {
	for _, e := range slices.Backward(events) {
		s.view.undo(e)
		s.revision--
	}
}

// fail ends all writing.
func (s *Store) fail(err error) {
	s.failure = err
	s.failed.Store(&s.failure)
	s.log.Error("write failed with an unknown outcome; no more writes are taken until the restart, which reads what is there", "err", err)
}

// processAgain answers a batch of which nothing was written. If one request is to blame, such as one whose values can't be encrypted, the
// others are written without it.
func (s *Store) processAgain(batch []*request, err error) (wake waiters) {
	if !errors.Is(err, ErrFull) && len(batch) > 1 {
		for _, r := range batch {
			r.err = nil
			wake = append(wake, s.process([]*request{r})...)
		}
		return wake
	}
	switch {
	case !errors.Is(err, ErrFull):
		s.log.Warn("write refused; nothing of it was written", "err", err)
	case s.full.Swap(&err) == nil:
		s.log.Error("no space left for the state; writes are refused until there is", "err", err)
		go s.awaitRoom()
	}
	return refuse(batch, err)
}

// roomEvery is how often a store without room looks whether there is some again. Writes look, too.
const roomEvery = time.Second

// awaitRoom has the committer ask the backend, until there is room or no more writing.
func (s *Store) awaitRoom() {
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	for s.full.Load() != nil {
		select {
		case <-s.alive.Done():
			return
		case <-s.done:
			return
		case <-tick.C:
		}
		if s.queue.put(&request{done: make(chan struct{})}) != nil {
			return
		}
	}
	s.log.Info("there is space for the state again; writes are accepted")
}

// recover asks the backend whether there is room again, where a batch has nothing to write.
func (s *Store) recover() {
	r, ok := s.backend.(Recoverer)
	if s.full.Load() == nil || s.failure != nil || !ok {
		return
	}
	switch err := r.Recover(); {
	case err == nil:
		s.full.Store(nil)
	case !errors.Is(err, ErrNotWritten):
		s.fail(fmt.Errorf("%w: %w", ErrFailed, err))
	}
}

func (s *Store) count(batch []*request, writes int) {
	for _, r := range batch {
		if r.err == nil {
			s.counts.commits.Add(1)
		}
	}
	s.counts.writes.Add(uint64(writes))
	s.counts.batches.Add(1)
}

// checkpoint lets the backend write the state anew, if it wants to, beside what goes on.
func (s *Store) checkpoint() {
	if s.backend == nil {
		return
	}
	write := s.backend.Checkpoint()
	if write == nil {
		return
	}
	sn := s.snapshot()
	s.checkpoints.Go(func() {
		start := time.Now()
		if err := write(s.alive, sn.Records()); err != nil && s.alive.Err() == nil {
			s.log.Error("the state could not be written anew; the log of writes goes on", "err", err)
		} else if err == nil {
			s.counts.checkpoints.Since(start)
		}
	})
}

func (s *Store) append(events []*Event) error {
	if s.backend == nil {
		return nil
	}
	if len(events) == 0 {
		s.recover()
		return nil
	}
	records := make([]Record, len(events))
	for i, e := range events {
		records[i] = Record{Key: e.Object.Key, Revision: e.Object.Revision, Created: e.Object.Created}
		if e.Type != Deleted {
			records[i].Data = e.Object.Data
		}
	}
	start := time.Now()
	if err := s.backend.Append(records); err != nil {
		if errors.Is(err, ErrNotWritten) {
			return err
		}
		return fmt.Errorf("%w: append: %w", ErrFailed, err)
	}
	s.counts.appending.Since(start)
	return nil
}

// prepare applies all ops of a request to the committer's view, or none, and returns events with theirs appended.
func (s *Store) prepare(r *request, events []*Event) []*Event {
	before := len(events)
	r.objects = make([]*Object, len(r.ops))
	for i := range r.ops {
		e, err := s.event(&r.ops[i], &r.drafts[i])
		if err != nil {
			s.undo(events[before:])
			r.objects, r.err = nil, err
			return events[:before]
		}
		s.view.apply(e)
		s.revision++
		r.objects[i] = e.Object
		events = append(events, e)
	}
	return events
}

// event checks an op's precondition against the committer's view and makes its event, with the next revision.
func (s *Store) event(op *Op, d *draft) (*Event, error) {
	now, _ := s.view.objects.Get(d.path)
	if reason := refusal(op, now); reason != nil {
		return nil, &ConflictError{Key: op.Key, Current: now, Reason: reason}
	}

	e := &Event{Type: Modified, Prev: now}
	obj := &Object{Revision: s.revision + 1, Created: s.revision + 1, path: d.path}
	e.Object = obj
	if now == nil {
		e.Type = Added
		obj.Key = split(d.path)
	} else {
		obj.Key, obj.Created, obj.path = now.Key, now.Created, now.path
	}
	if op.Data == nil {
		e.Type = Deleted
		obj.Head = now.Head
		obj.Data, obj.version = now.version.splice(now.Data, obj.Revision)
	} else {
		obj.Head = d.head
		obj.Data, obj.version = d.version.splice(op.Data, obj.Revision)
	}
	return e, nil
}

// refusal says why an op does not fit what is stored, or nil.
func refusal(op *Op, now *Object) error {
	switch {
	case now == nil && (op.Data == nil || op.Expect != 0 && op.Expect != AnyRevision):
		return ErrNotFound
	case now != nil && op.Expect == 0:
		return ErrExists
	case now != nil && op.Expect != now.Revision && op.Expect != AnyRevision:
		return ErrConflict
	}
	return nil
}
