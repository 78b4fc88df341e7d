// Package expiry deletes the objects of a resource a fixed time after their last write, as
// kube-apiserver does with Events (--event-ttl, etcd leases).
//
// All objects have the same lifetime, so they expire in the order in which they were written, and a
// FIFO queue with one timer is enough. Writing an object again puts it at the end of the queue. A
// deletion has the revision as its precondition, so a concurrent write wins.
package expiry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"kelson.dev/apiserver/store"
)

// Controller expires the objects of one resource.
type Controller struct {
	store    *store.Store
	resource string
	lifetime time.Duration
}

// New returns a controller for a resource (as in [store.Key]) whose objects live for lifetime.
func New(s *store.Store, resource string, lifetime time.Duration) *Controller {
	return &Controller{store: s, resource: resource, lifetime: lifetime}
}

// Run deletes expired objects until ctx ends or the store is closed. Objects that exist when Run
// starts expire relative to their creation.
func (c *Controller) Run(ctx context.Context) error {
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	q := &queue{wake: make(chan struct{}, 1)}
	var expiring sync.WaitGroup
	expiring.Go(func() {
		if err := c.expireAll(running, q); err != nil {
			cancel(err)
		}
	})
	err := c.store.Follow(running, c.resource, func(sn *store.Snapshot) {
		q.begin(sn.Scan(c.resource, "", store.Key{}), c.lifetime)
	}, func(events []*store.Event) {
		q.add(events, time.Now().Add(c.lifetime))
	})
	cancel(err)
	expiring.Wait()
	if err := context.Cause(running); ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
		return err
	}
	return nil
}

// expireAll deletes entries when they are due, until ctx ends.
func (c *Controller) expireAll(ctx context.Context, q *queue) error {
	timer := time.NewTimer(c.lifetime)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-q.wake:
		case <-timer.C:
		}
		due, next := q.due(time.Now())
		for _, e := range due {
			if err := c.expire(ctx, e); err != nil {
				return err
			}
		}
		if next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
	}
}

// expire deletes one object, unless it was written again.
func (c *Controller) expire(ctx context.Context, e entry) error {
	_, err := c.store.Commit(ctx, store.Op{Key: e.key, Expect: e.revision})
	var conflict *store.ConflictError
	if err == nil || errors.As(err, &conflict) || ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
		return nil
	}
	return fmt.Errorf("expire %s: %w", e.key.Name, err)
}
