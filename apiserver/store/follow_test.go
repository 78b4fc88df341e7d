package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
)

// Follow delivers the state, then the events in order. A follower that falls behind the log gets
// the state again.
func TestFollowReturnsStateThenEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(store.Config{Retain: 8})
		require.NoError(t, err)
		write := func(name string) {
			t.Helper()
			_, err := s.Commit(t.Context(), store.Op{Key: store.Key{Resource: "things", Name: name},
				Data: []byte(`{"metadata":{}}`)})
			require.NoError(t, err)
		}
		write("before")
		var seen []string
		stall := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() {
			ended <- s.Follow(ctx, "things", func(sn *store.Snapshot) {
				seen = append(seen, fmt.Sprint("state of ", sn.Count("things", "")))
			}, func(events []*store.Event) {
				for _, e := range events {
					seen = append(seen, e.Object.Key.Name)
				}
				if e := events[len(events)-1]; e.Object.Key.Name == "stall" {
					<-stall
				}
			})
		}()
		synctest.Wait()
		write("a")
		write("b")
		synctest.Wait()
		write("stall")
		synctest.Wait()
		for i := range 100 { // more than the log retains
			write(fmt.Sprint("missed", i))
		}
		close(stall)
		synctest.Wait()
		write("after")
		synctest.Wait()
		if want := []string{"state of 1", "a", "b", "stall", "state of 104", "after"}; !slices.Equal(seen, want) {
			t.Errorf("seen %v, want %v", seen, want)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("its context ended: %v", err)
		}
		go func() { ended <- s.Follow(t.Context(), "things", func(*store.Snapshot) {}, func([]*store.Event) {}) }()
		synctest.Wait()
		s.Close()
		if err := <-ended; !errors.Is(err, store.ErrClosed) {
			t.Errorf("the store was closed: %v", err)
		}
	})
}

// Await returns at the first write of one of the resources after the revision, also if the log no
// longer contains this write. It ends with its context and with the store.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(store.Config{Retain: 8})
		require.NoError(t, err)
		write := func(resource string) uint64 {
			t.Helper()
			objs, err := s.Commit(t.Context(), store.Op{Key: store.Key{Resource: resource, Name: "a"},
				Data: []byte(`{"metadata":{}}`), Expect: store.AnyRevision})
			require.NoError(t, err)
			return objs[0].Revision
		}
		first := write("things")
		ended := make(chan error, 1)
		await := func(ctx context.Context, after uint64, resources ...string) {
			go func() { ended <- s.Await(ctx, after, resources...) }()
			synctest.Wait()
		}
		waits := func() {
			t.Helper()
			select {
			case err := <-ended:
				t.Fatalf("the call did not wait: %v", err)
			default:
			}
		}
		await(t.Context(), first, "things", "others")
		waits()
		write("else")
		synctest.Wait()
		waits()
		last := write("others")
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for _, resources := range [][]string{{"things", "others"}, {""}} { // written already
			if err := s.Await(t.Context(), first, resources...); err != nil {
				t.Error(err)
			}
		}
		for range 20 { // more than are kept
			last = write("things")
		}
		if err := s.Await(t.Context(), first, "things"); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		await(ctx, last, "")
		waits()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("its context ended: %v", err)
		}
		await(t.Context(), last, "")
		s.Close()
		if err := <-ended; !errors.Is(err, store.ErrClosed) {
			t.Errorf("the store was closed: %v", err)
		}
	})
}
