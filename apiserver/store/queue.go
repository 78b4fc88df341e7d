package store

import (
	"fmt"
	"sync"
)

// request is one Commit as the committer processes it.
type request struct {
	ops       []Op
	drafts    []draft
	size      int    // of all its objects
	taken     bool   // guarded by queue.mu: the committer has it and will answer it
	withdrawn bool   // guarded by queue.mu: its caller no longer waits
	task      func() // called after the batch of the request; nil: none

	// Set before done is closed.
	objects []*Object
	err     error
	done    chan struct{}
}

// draft is the part of a write that does not depend on its revision. The goroutine that calls
// Commit computes it, so that the single committer does not have to.
type draft struct {
	path    string
	head    Head
	version span
}

func newDrafts(ops []Op) ([]draft, error) {
	drafts := make([]draft, len(ops))
	for i := range ops {
		if err := drafts[i].make(&ops[i]); err != nil {
			return nil, fmt.Errorf("%s %s/%s: %w", ops[i].Key.Resource, ops[i].Key.Namespace, ops[i].Key.Name, err)
		}
	}
	return drafts, nil
}

func (d *draft) make(op *Op) error {
	if op.whole() && op.Key.Namespace == "" && op.Data == nil {
		named := op.Key
		named.Name = "-"
		if named.valid() {
			return nil
		}
	}
	if !op.Key.valid() || op.Check && op.Data != nil {
		return fmt.Errorf("%w: invalid key", ErrMalformed)
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
	// wake has a capacity of 1; a token makes the committer look at pending and closed
	wake chan struct{}
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

// withdraw removes a request and returns true, unless the committer has taken it.
func (q *queue) withdraw(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.withdrawn = !r.taken
	return r.withdrawn
}

// take blocks until requests are pending and returns those whose objects have up to MaxUnit bytes,
// but at least one; ok is false when the queue is closed and empty. The batch is empty if all its
// requests were withdrawn. last is the slice of the previous batch, which take reuses.
func (q *queue) take(last []*request) (batch []*request, ok bool) {
	clear(last)
	for {
		q.mu.Lock()
		if len(q.pending) > 0 {
			n := fitting(q.pending)
			batch, q.pending = q.pending[:n], append(last[:0], q.pending[n:]...)
			live := batch[:0]
			for _, r := range batch {
				if !r.withdrawn {
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

// fitting returns how many requests one batch may have.
func fitting(pending []*request) int {
	total := 0
	for i, r := range pending {
		if total += r.size; total > MaxUnit && i > 0 {
			return i
		}
	}
	return len(pending)
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}
