package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// committer is the driver of a store that alone writes to its log. One goroutine checks, numbers,
// appends and publishes all writes. Only that goroutine uses state and failure.
type committer struct {
	state
	store   *Store
	backend Backend // nil: the state is only in memory
	queue   queue

	alive       context.Context // ends with close
	end         context.CancelFunc
	checkpoints sync.WaitGroup

	packed  uint64                // the revision of the last Pack; only of the goroutine
	failure error                 // why every later write is refused
	final   atomic.Pointer[error] // failure, for other goroutines
	full    atomic.Pointer[error] // the error of a write that found no space; nil: there is space

	done chan struct{} // closed when the goroutine has ended
}

func newCommitter(s *Store, st state, backend Backend) *committer {
	c := &committer{state: st, store: s, backend: backend, queue: queue{wake: make(chan struct{}, 1)},
		done: make(chan struct{})}
	c.alive, c.end = context.WithCancel(context.Background())
	go c.run()
	return c
}

func (c *committer) commit(ctx context.Context, ops []Op, drafts []draft, size int) ([]*Object, error) {
	r := &request{ops: ops, drafts: drafts, size: size, done: make(chan struct{})}
	if err := c.queue.put(r); err != nil {
		return nil, err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if c.queue.withdraw(r) {
			return nil, ctx.Err()
		}
		<-r.done // the write may already be durable; the caller needs the outcome
	}
	return r.objects, r.err
}

func (c *committer) fresh(context.Context) (*Snapshot, error) { return c.store.snapshot(), nil }

func (c *committer) failed() error {
	if err := c.full.Load(); err != nil {
		return *err
	}
	if err := c.final.Load(); err != nil {
		return *err
	}
	return nil
}

func (c *committer) stats(stats *Stats) {
	stats.Queue = c.queue.length()
	if m, ok := c.backend.(Measured); ok {
		stats.BackendStats = m.Stats()
	}
}

func (c *committer) stop() {
	c.queue.close()
	<-c.done
}

func (c *committer) close() error {
	c.end()
	c.checkpoints.Wait()
	if c.backend == nil {
		return nil
	}
	return c.backend.Close()
}

// run is the committer's goroutine.
func (c *committer) run() {
	defer close(c.done)
	var batch []*request
	for {
		var ok bool
		if batch, ok = c.queue.take(batch); !ok {
			return
		}
		if len(batch) == 0 {
			continue
		}
		wake := c.process(batch)
		for _, r := range batch {
			if r.task != nil {
				r.task()
			}
		}
		// The scheduler first runs the goroutine that was woken last. Wake a writer last: it holds
		// the object that its response contains, and the encoding it makes of that object is then
		// ready for watches.
		for _, r := range batch[1:] {
			close(r.done)
		}
		wake.close()
		close(batch[0].done)
		if len(batch) > 1 {
			// writers that got their answer often write again; let them join the next batch
			runtime.Gosched()
		}
	}
}

// process decides the requests of a batch. No result leaves the committer before the batch is
// durable, conflicts included, because they may be conflicts with writes of the same batch. It
// returns the waiters to wake.
func (c *committer) process(batch []*request) (wake waiters) {
	if c.failure != nil {
		return refuse(batch, c.failure)
	}
	var events []*Event
	for _, r := range batch {
		events = c.prepare(r, events)
	}
	err := c.append(events)
	switch {
	case errors.Is(err, ErrNotWritten):
		c.undo(events)
		return c.retryBatch(batch, err)
	case err != nil:
		c.fail(err)
		return refuse(batch, err)
	}
	if len(events) > 0 {
		if c.full.Load() != nil {
			c.full.Store(nil)
		}
		c.count(batch, len(events))
		start := time.Now()
		wake = c.store.publish(c.freeze(c.store.config), events)
		c.store.counts.publishing.Since(start)
		c.checkpoint()
	}
	return wake
}

func refuse(batch []*request, err error) waiters {
	for _, r := range batch {
		r.objects, r.err = nil, err
	}
	return nil
}

// undo reverts events that were not written in the committer's state.
func (c *committer) undo(events []*Event) {
	for _, e := range slices.Backward(events) {
		c.view.undo(e)
		c.revision--
	}
}

// fail makes the committer refuse all later writes.
func (c *committer) fail(err error) {
	c.failure = err
	c.final.Store(&c.failure)
	c.store.log.Error("write outcome unknown; refusing all writes until restart, which reads the state from the backend", "err", err)
}

// retryBatch handles a batch that the backend did not write at all. Unless space has run out, it
// retries each request alone: one request may be the cause, such as one whose values can't be
// encrypted.
func (c *committer) retryBatch(batch []*request, err error) (wake waiters) {
	if !errors.Is(err, ErrFull) && len(batch) > 1 {
		for _, r := range batch {
			r.err = nil
			wake = append(wake, c.process([]*request{r})...)
		}
		return wake
	}
	switch {
	case !errors.Is(err, ErrFull):
		c.store.log.Warn("write refused; nothing was written", "err", err)
	case c.full.Swap(&err) == nil:
		c.store.log.Error("no space left for a write; nothing was written", "err", err)
		go c.awaitSpace()
	}
	return refuse(batch, err)
}

// spaceCheckInterval is how often a store without space checks whether space is free. Every write
// checks, too.
const spaceCheckInterval = time.Second

// awaitSpace queues empty requests, which make the committer call the backend, until there is space
// or the store closes. If there is space at the first check, only the refused write was too large,
// and other writes were not refused.
func (c *committer) awaitSpace() {
	tick := time.NewTicker(spaceCheckInterval)
	defer tick.Stop()
	checks := 0
	for ; c.full.Load() != nil; checks++ {
		if checks == 1 {
			c.store.log.Error("no space left for the state; refusing writes until space is free")
		}
		select {
		case <-c.alive.Done():
			return
		case <-c.done:
			return
		case <-tick.C:
		}
		r := &request{done: make(chan struct{})}
		if c.queue.put(r) != nil {
			return
		}
		<-r.done
	}
	if checks > 1 {
		c.store.log.Info("space is free again; accepting writes")
	}
}

// recover checks whether a full backend has space again. It is for batches that write nothing.
func (c *committer) recover() {
	r, ok := c.backend.(Recoverer)
	if c.full.Load() == nil || c.failure != nil || !ok {
		return
	}
	switch err := r.Recover(); {
	case err == nil:
		c.full.Store(nil)
	case !errors.Is(err, ErrNotWritten):
		c.fail(fmt.Errorf("%w: %w", ErrFailed, err))
	}
}

func (c *committer) count(batch []*request, writes int) {
	counts := &c.store.counts
	for _, r := range batch {
		if r.err == nil {
			counts.commits.Add(1)
		}
	}
	counts.writes.Add(uint64(writes))
	counts.batches.Add(1)
}

// checkpoint starts a checkpoint in the background if the backend wants one.
func (c *committer) checkpoint() {
	if c.backend == nil {
		return
	}
	write := c.backend.Checkpoint()
	if write == nil {
		return
	}
	sn := c.store.snapshot()
	c.checkpoints.Go(func() {
		start := time.Now()
		if err := write(c.alive, sn.Records()); err != nil && c.alive.Err() == nil {
			c.store.log.Error("checkpoint failed; continuing with the existing log", "err", err)
		} else if err == nil {
			c.store.counts.checkpoints.Since(start)
		}
	})
}

func (c *committer) append(events []*Event) error {
	if c.backend == nil {
		return nil
	}
	if len(events) == 0 {
		c.recover()
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
	if err := c.backend.Append(records); err != nil {
		if errors.Is(err, ErrNotWritten) {
			return err
		}
		return fmt.Errorf("%w: append: %w", ErrFailed, err)
	}
	c.store.counts.appending.Since(start)
	return nil
}

// prepare applies all ops of a request to the committer's state, or none, and returns events with
// theirs appended.
func (c *committer) prepare(r *request, events []*Event) []*Event {
	before := len(events)
	r.objects = make([]*Object, len(r.ops))
	for i := range r.ops {
		var e *Event
		var err error
		if r.ops[i].Check {
			err = c.check(&r.ops[i], &r.drafts[i], events[:before])
		} else {
			e, err = c.event(&r.ops[i], &r.drafts[i])
		}
		if err != nil {
			c.undo(events[before:])
			r.objects, r.err = nil, err
			return events[:before]
		}
		if e == nil {
			continue
		}
		c.view.apply(e)
		c.revision++
		r.objects[i] = e.Object
		events = append(events, e)
	}
	return events
}

// check returns an error if the precondition of an op that writes nothing fails. batch are the
// events of the requests before it, which are not published yet.
func (c *committer) check(op *Op, d *draft, batch []*Event) error {
	if !op.whole() {
		current, _ := c.view.objects.Get(d.path)
		if reason := refusal(op, current); reason != nil {
			return &ConflictError{Key: op.Key, Current: current, Reason: reason}
		}
		return nil
	}
	newest := c.store.Changed(op.Key.Resource)
	for _, e := range batch {
		if e.Object.Key.Resource == op.Key.Resource {
			newest = e.Revision()
		}
	}
	if newest > op.Expect {
		return &ConflictError{Key: op.Key, Reason: ErrConflict}
	}
	return nil
}

// event checks an op's precondition against the committer's state and returns its event, with the
// next revision.
func (c *committer) event(op *Op, d *draft) (*Event, error) {
	current, _ := c.view.objects.Get(d.path)
	if reason := refusal(op, current); reason != nil {
		return nil, &ConflictError{Key: op.Key, Current: current, Reason: reason}
	}

	e := &Event{Type: Modified, Prev: current}
	obj := &Object{Revision: c.revision + 1, Created: c.revision + 1, path: d.path, budget: c.store.budget}
	e.Object = obj
	if current == nil {
		e.Type = Added
		obj.Key = split(d.path)
	} else {
		obj.Key, obj.Created, obj.path = current.Key, current.Created, current.path
	}
	if op.Data == nil {
		e.Type = Deleted
		obj.Head = current.Head
		obj.Data, obj.version = current.version.splice(current.Data, obj.Revision)
	} else {
		obj.Head = d.head
		obj.Data, obj.version = d.version.splice(op.Data, obj.Revision)
	}
	e.measure()
	return e, nil
}

// refusal returns the reason why an op's precondition fails against the current stored object, or
// nil if it holds.
func refusal(op *Op, current *Object) error {
	switch {
	case op.Check && current == nil && op.Expect == 0:
		return nil
	case current == nil && (op.Data == nil || op.Expect != 0 && op.Expect != AnyRevision):
		return ErrNotFound
	case current != nil && op.Expect == 0:
		return ErrExists
	case current != nil && op.Expect != current.Revision && op.Expect != AnyRevision:
		return ErrConflict
	}
	return nil
}
