package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
)

// A subscription receives the state and then all events of its resources, in order.
func TestSubscriptionsGetStateThenEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(store.Config{Retain: 8})
		require.NoError(t, err)
		write := func(resource, name string) {
			t.Helper()
			_, err := s.Commit(t.Context(), store.Op{Key: store.Key{Resource: resource, Name: name},
				Data: []byte(`{"metadata":{}}`)})
			require.NoError(t, err)
		}
		stall := make(chan struct{})
		subscribe := func(resources ...string) (*store.Subscription, *[]string) {
			seen := &[]string{}
			return s.Subscribe(resources, func(sn *store.Snapshot) {
				*seen = append(*seen, fmt.Sprintf("state %d %d", sn.Count("a", ""), sn.Count("b", "")))
			}, func(e *store.Event) {
				*seen = append(*seen, e.Object.Key.Name)
				if e.Object.Key.Name == "stall" {
					<-stall
				}
			}), seen
		}
		check := func(seen *[]string, want string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(*seen, strings.Split(want, ", ")) {
				t.Errorf("seen %q, want %q", *seen, want)
			}
		}
		write("a", "1")
		a, seenA := subscribe("a")
		both, seenBoth := subscribe("b", "a")
		check(seenBoth, "state 1 0")
		write("a", "2")
		write("b", "3")
		write("c", "4")
		all, seenAll := subscribe("")
		check(seenAll, "state 2 1")
		write("b", "5")
		check(seenA, "state 1 0, 2")
		check(seenBoth, "state 1 0, 2, 3, 5")
		check(seenAll, "state 2 1, 5")
		a.End()
		write("a", "stall")
		synctest.Wait()
		for i := range 100 { // more than the log retains
			write("b", fmt.Sprint("missed", i))
		}
		close(stall)
		synctest.Wait()
		write("c", "6")
		check(seenA, "state 1 0, 2")
		check(seenAll, "state 2 1, 5, stall, state 3 102, 6")
		if got := (*seenBoth)[len(*seenBoth)-1]; got != "state 3 102" {
			t.Errorf("after falling behind: %q", got)
		}
		both.End()
		both.End()
		all.End() // the goroutine ends with the last subscription

		last, seen := subscribe("a")
		check(seen, "state 3 102")
		s.Close()
		<-last.Closed()
		late, _ := subscribe("a")
		<-late.Closed()
		late.End()
		last.End()
	})
}

// The first subscription of a store receives the state, also if the goroutine that calls it runs
// before Subscribe returns.
func TestFirstSubscriptionBegins(t *testing.T) {
	for range 3000 {
		s, err := store.Open(store.Config{})
		require.NoError(t, err)
		begun := make(chan struct{})
		sub := s.Subscribe([]string{"a"}, func(*store.Snapshot) { close(begun) }, func(*store.Event) {})
		select {
		case <-begun:
		case <-time.After(time.Minute):
			t.Fatal("the subscription has not begun")
		}
		sub.End()
		s.Close()
	}
}
