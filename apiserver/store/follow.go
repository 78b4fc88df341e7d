package store

import (
	"context"
	"errors"
	"fmt"
)

// Follow calls begin with the current state and then each with every later event of a resource (""
// means all), in order, in the caller's goroutine. If the reader falls so far behind that events
// are gone, Follow calls begin again with a newer state. It returns nil when ctx ends, and
// ErrClosed after Close.
func (s *Store) Follow(ctx context.Context, resource string, begin func(*Snapshot), each func(events []*Event)) error {
	for {
		sn := s.Snapshot()
		cursor, err := s.Watch(resource, sn.Revision())
		if err == nil {
			begin(sn)
			err = follow(ctx, cursor, each)
		}
		switch {
		case errors.Is(err, ErrCompacted) && ctx.Err() == nil:
			// the reader fell behind; begin again
		case err == nil || errors.Is(err, ErrClosed):
			return err
		default:
			return fmt.Errorf("follow %q: %w", resource, err)
		}
	}
}

func follow(ctx context.Context, cursor *Cursor, each func([]*Event)) error {
	for {
		events, _, err := cursor.Next()
		if err != nil {
			return err
		}
		if len(events) > 0 {
			each(events)
			if ctx.Err() != nil {
				return nil
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-cursor.Ready():
		}
	}
}
