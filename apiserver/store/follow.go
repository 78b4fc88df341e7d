package store

import (
	"context"
	"errors"
	"fmt"
)

// Follow shows a reader the state and then every event of a resource ("" is all) after it, in order, from the caller's goroutine.
// A reader that fell so far behind that events are gone is shown the state again: begin must cope with being called anew. It
// returns nil when ctx ends, and ErrClosed after Close.
func (s *Store) Follow(ctx context.Context, resource string, begin func(*Snapshot), each func(events []*Event)) error {
	for {
		sn := s.Snapshot()
		cursor, err := s.Watch(resource, sn.Revision())
		if err == nil {
			begin(sn)
			err = follow(ctx, cursor, each)
		}
		switch {
		case errors.Is(err, ErrCompacted) && ctx.Err() == nil: // left behind
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
