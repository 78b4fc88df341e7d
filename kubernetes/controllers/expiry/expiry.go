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
	"slices"
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

// entry is a write that has not expired yet.
type entry struct {
	key      store.Key
	revision uint64
	due      time.Time
}

// Run deletes expired objects until ctx ends or the store is closed. Objects that exist when Run
// starts expire relative to their creation.
func (c *Controller) Run(ctx context.Context) error {
	var queue []entry
	sn := c.store.Snapshot()
	for obj := range sn.Scan(c.resource, "", store.Key{}) {
		queue = append(queue, entry{obj.Key, obj.Revision, obj.Head.CreationTimestamp.Add(c.lifetime)})
	}
	slices.SortFunc(queue, func(a, b entry) int { return a.due.Compare(b.due) })
	cursor, err := c.store.Watch(c.resource, sn.Revision())
	if err != nil {
		return fmt.Errorf("watch %s: %w", c.resource, err)
	}

	timer := time.NewTimer(c.lifetime)
	defer timer.Stop()
	for {
		events, _, err := cursor.Next()
		if errors.Is(err, store.ErrCompacted) {
			return c.Run(ctx) // too far behind: start over with the current state
		}
		if errors.Is(err, store.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watch %s: %w", c.resource, err)
		}
		for _, e := range events {
			if e.Type != store.Deleted {
				queue = append(queue, entry{e.Object.Key, e.Revision(), time.Now().Add(c.lifetime)})
			}
		}
		if queue, err = c.expire(ctx, queue); err != nil {
			return err
		}
		if len(events) > 0 {
			continue
		}
		if len(queue) > 0 {
			timer.Reset(time.Until(queue[0].due))
		} else {
			timer.Reset(c.lifetime)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-cursor.Ready():
		case <-timer.C:
		}
	}
}

// expire deletes the entries that are due and returns the rest of the queue.
func (c *Controller) expire(ctx context.Context, queue []entry) ([]entry, error) {
	now := time.Now()
	for len(queue) > 0 && !queue[0].due.After(now) {
		_, err := c.store.Commit(ctx, store.Op{Key: queue[0].key, Expect: queue[0].revision})
		var conflict *store.ConflictError
		switch {
		case err == nil, errors.As(err, &conflict): // deleted or written again meanwhile
		case ctx.Err() != nil, errors.Is(err, store.ErrClosed):
			return queue, nil
		default:
			return queue, fmt.Errorf("expire %s: %w", queue[0].key.Name, err)
		}
		queue = queue[1:]
	}
	return queue, nil
}
