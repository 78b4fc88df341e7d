// Package expiry deletes the objects of a resource some time after they were last written, as Kubernetes does with Events.
//
// The lifetime is one and the same for all objects, so they expire in the order in which they were written: a plain queue and one
// timer serve. An object written again goes to the end of the queue; a deletion is conditional on the revision, so that a write that
// comes at the last moment wins.
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

// entry is one write that has not expired yet.
type entry struct {
	key      store.Key
	revision uint64
	due      time.Time
}

// Run works until ctx ends or the store is closed. Objects that were there before count from their creation.
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
			return c.Run(ctx) // far behind: begin again from what is there
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

// expire deletes what is due and returns the rest of the queue.
func (c *Controller) expire(ctx context.Context, queue []entry) ([]entry, error) {
	now := time.Now()
	for len(queue) > 0 && !queue[0].due.After(now) {
		_, err := c.store.Commit(ctx, store.Op{Key: queue[0].key, Expect: queue[0].revision})
		var conflict *store.ConflictError
		switch {
		case err == nil, errors.As(err, &conflict): // gone or written again meanwhile
		case ctx.Err() != nil, errors.Is(err, store.ErrClosed):
			return queue, nil
		default:
			return queue, fmt.Errorf("expire %s: %w", queue[0].key.Name, err)
		}
		queue = queue[1:]
	}
	return queue, nil
}
