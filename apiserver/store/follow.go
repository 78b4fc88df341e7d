package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

// Follow calls begin with the current state and then each with every later event of a resource (""
// means all), in order, in the caller's goroutine. If the reader falls so far behind that the
// store has discarded its next events, Follow calls begin again with a newer state. It returns nil
// when ctx ends, and ErrClosed after Close.
//
// Readers that handle each event when it is published use Follow, or Subscribe if they are quick.
// Three kinds of readers use a [Cursor] directly: watches of the API, which must end when the
// store has discarded their next events; derived.Fold and lab/explore, which read events only on
// demand; and flowcontrol, which also waits for events that are not from the store. Readers that
// need only the newest state use Await.
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

// Await waits for a write to one of the resources at a revision later than after, and returns nil.
// If there was such a write already, it returns immediately. "" means all resources. Await returns
// the error of ctx if ctx ends first, and ErrClosed after Close.
func (s *Store) Await(ctx context.Context, after uint64, resources ...string) error {
	cases := []reflect.SelectCase{{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())}}
	for _, resource := range resources {
		cursor, err := s.Watch(resource, after)
		switch {
		case errors.Is(err, ErrCompacted): // there was a later write
			return nil
		case err != nil:
			return fmt.Errorf("await a write to %q: %w", resource, err)
		}
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(cursor.Ready())})
	}
	switch chosen, _, _ := reflect.Select(cases); {
	case s.Changed(resources...) > after:
		return nil
	case chosen == 0:
		return ctx.Err()
	}
	return ErrClosed
}
