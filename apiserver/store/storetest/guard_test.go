package storetest

import (
	"fmt"
	"slices"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
)

// errorRecorder is a testing.TB that records errors.
type errorRecorder struct {
	testing.TB
	errors []string
}

func (c *errorRecorder) Errorf(format string, args ...any) {
	c.errors = append(c.errors, fmt.Sprintf(format, args...))
}

// A guard reports every difference between what is published and what watchers receive.
func TestGuard(t *testing.T) {
	shift := func(e *store.Event) *store.Event {
		return &store.Event{Type: store.Modified,
			Object: &store.Object{Key: e.Object.Key, Revision: e.Object.Revision + 1}, Prev: e.Object}
	}
	for _, test := range []struct {
		name string
		// published returns the events that the store would publish if the watches were right
		published func([]*store.Event) []*store.Event
		whole     bool // the guard reports nothing
	}{
		{"as it is", func(e []*store.Event) []*store.Event { return e }, true},
		{"one is lost", func(e []*store.Event) []*store.Event {
			return append(slices.Clone(e), shift(e[len(e)-1]))
		}, false},
		{"one too many", func(e []*store.Event) []*store.Event { return e[:len(e)-1] }, false},
		{"in another order", func(e []*store.Event) []*store.Event {
			e = slices.Clone(e)
			slices.Reverse(e)
			return e
		}, false},
		{"another type", func(e []*store.Event) []*store.Event {
			return append(e[:1:1], append([]*store.Event{{Type: store.Deleted, Object: e[1].Object}}, e[2:]...)...)
		}, false},
		{"another past", func(e []*store.Event) []*store.Event {
			return append(e[:1:1], append([]*store.Event{{Type: e[1].Type, Object: e[1].Object, Prev: e[0].Object}},
				e[2:]...)...)
		}, false},
	} {
		s, err := store.Open(store.Config{})
		require.NoError(t, err)
		recorder := &errorRecorder{TB: t}
		g := newGuard(recorder, s)
		s.Inspect(func(sn *store.Snapshot, events []*store.Event) { g.published(sn, test.published(events)) })
		for i := range 5 {
			commit(t, s, store.Op{Key: key("a"), Data: object("u", fmt.Sprint(i)), Expect: store.AnyRevision},
				store.Op{Key: key("b"), Data: object("v", fmt.Sprint(i)), Expect: store.AnyRevision},
				store.Op{Key: store.Key{Resource: "nodes", Name: "n"}, Data: object("w", "1"),
					Expect: store.AnyRevision})
		}
		s.Close()
		if (len(recorder.errors) == 0) != test.whole {
			t.Errorf("%s: %d complaints: %v", test.name, len(recorder.errors), recorder.errors)
		}
	}
}
