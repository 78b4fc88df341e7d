package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"kelson.dev/apiserver/store"
)

// Log is a log in memory that several stores share like an etcd cluster.
type Log struct {
	mu       sync.Mutex
	revision uint64
	state    map[store.Key]store.Record
	history  []unit
	moved    chan struct{} // closed and replaced by every Commit and every call of want
}

type unit struct {
	revision uint64
	records  []store.Record
}

// NewLog returns an empty log.
func NewLog() *Log {
	return &Log{revision: 1, state: map[store.Key]store.Record{}, moved: make(chan struct{})}
}

// Shared returns the access of one store. A lazy access is as far behind as the contract allows: it
// follows the log only as far as its own writes and its calls of Fresh require.
func (l *Log) Shared(lazy bool) store.Shared { return &handle{log: l, lazy: lazy} }

// handle is the store.Shared of one store. Its fields are guarded by log.mu.
type handle struct {
	log    *Log
	lazy   bool
	wanted uint64
	closed bool
}

var errClosed = errors.New("the log is closed")

func (h *handle) Load(_ context.Context, each func(store.Record) error) (uint64, error) {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	for _, r := range h.log.state {
		r.Data = slices.Clone(r.Data)
		if err := each(r); err != nil {
			return 0, err
		}
	}
	return h.log.revision, nil
}

func (h *handle) Follow(ctx context.Context, after uint64, apply func(uint64, []store.Record)) error {
	for {
		h.log.mu.Lock()
		i, _ := slices.BinarySearchFunc(h.log.history, after+1, func(u unit, revision uint64) int {
			return int(u.revision) - int(revision)
		})
		units, moved := h.log.history[i:], h.log.moved
		if h.lazy {
			n := 0
			for n < len(units) && units[n].revision <= h.wanted {
				n++
			}
			units = units[:n]
		}
		h.log.mu.Unlock()
		for _, u := range units {
			apply(u.revision, u.records)
			after = u.revision
		}
		if len(units) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-moved:
		}
	}
}

func (h *handle) Commit(_ context.Context, ops []store.Op) (uint64, bool, error) {
	l := h.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.closed {
		return 0, false, errClosed
	}
	seen := map[store.Key]bool{}
	for _, op := range ops {
		if op.Check {
			if !l.holds(op) {
				h.want(l.revision)
				return l.revision, false, nil
			}
			continue
		}
		if seen[op.Key] {
			return 0, false, store.ErrMalformed
		}
		seen[op.Key] = true
		now, exists := l.state[op.Key]
		if op.Data == nil && !exists || op.Expect != store.AnyRevision && op.Expect != now.Revision {
			h.want(l.revision)
			return l.revision, false, nil
		}
	}
	l.revision++
	u := unit{revision: l.revision}
	for _, op := range ops {
		if op.Check {
			continue
		}
		r := store.Record{Key: op.Key, Revision: l.revision, Created: l.revision, Data: slices.Clone(op.Data)}
		if now, exists := l.state[op.Key]; exists {
			r.Created = now.Created
		}
		if l.state[op.Key] = r; op.Data == nil {
			delete(l.state, op.Key)
		}
		u.records = append(u.records, r)
	}
	l.history = append(l.history, u)
	h.want(l.revision)
	return l.revision, true, nil
}

// holds reports whether the precondition of an op that writes nothing is met. The caller holds mu.
func (l *Log) holds(op store.Op) bool {
	if op.Key.Name != "" {
		return l.state[op.Key].Revision == op.Expect
	}
	for key, r := range l.state {
		if key.Resource == op.Key.Resource && r.Revision > op.Expect {
			return false
		}
	}
	return true
}

func (h *handle) Current(context.Context) (uint64, error) {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	if h.closed {
		return 0, errClosed
	}
	h.want(h.log.revision)
	return h.log.revision, nil
}

// want makes followers apply everything up to a revision. The caller holds log.mu.
func (h *handle) want(revision uint64) {
	h.wanted = max(h.wanted, revision)
	close(h.log.moved)
	h.log.moved = make(chan struct{})
}

func (h *handle) Close() error {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	h.closed = true
	return nil
}
