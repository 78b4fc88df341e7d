package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kelson.dev/apiserver/internal/clocks"
	"kelson.dev/internal/require"
)

// A paged list keeps its snapshot for five minutes after the first page, even if the machine's
// clock is changed.
func TestPinsWhenTheClockIsSet(t *testing.T) {
	for _, jump := range []time.Duration{0, -time.Hour, time.Hour, -10 * 365 * 24 * time.Hour,
		10 * 365 * 24 * time.Hour} {
		s, err := Open(Config{})
		require.NoError(t, err)
		defer s.Close()
		write := func(name string) {
			_, err := s.Commit(t.Context(), Op{Key: Key{Resource: "things", Name: name},
				Data: []byte(`{"metadata":{"name":"` + name + `"}}`)})
			require.NoError(t, err)
		}
		write("a")
		pinned := s.Snapshot()
		s.pin(pinned)
		write("b")
		pass := func(time time.Duration) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.pins[0].until = s.pins[0].until.Add(-time)
		}
		s.pins[0].until = clocks.Set(s.pins[0].until, -jump)
		pass(pinFor - time.Minute)
		if sn, err := s.pinned(pinned.Revision()); err != nil || sn != pinned {
			t.Errorf("clock set by %s: before the end: %v", jump, err)
		}
		pass(time.Minute)
		if _, err := s.pinned(pinned.Revision()); !errors.Is(err, ErrCompacted) {
			t.Errorf("clock set by %s: after %s: %v, want %v", jump, pinFor, err, ErrCompacted)
		}
	}
}

// Clients that begin paged lists while large objects change do not fill the memory.
func TestPinsAreBoundedBySize(t *testing.T) {
	const size, budget = 1 << 20, 16 << 20
	s, err := Open(Config{Budget: func(int64) int64 { return budget }})
	require.NoError(t, err)
	defer s.Close()
	write := func() {
		data := fmt.Appendf(nil, `{"metadata":{"name":"a"},"data":{"k":%q}}`, strings.Repeat("x", size))
		_, err := s.Commit(t.Context(), Op{Key: Key{Resource: "things", Name: "a"}, Data: data,
			Expect: AnyRevision})
		require.NoError(t, err)
	}
	write()
	oldest := s.Snapshot()
	s.pin(oldest)
	for range budget/size - 2 {
		write()
		s.pin(s.Snapshot())
	}
	if _, err := s.pinned(oldest.Revision()); err != nil {
		t.Errorf("below the limit: %v", err)
	}
	for range 2 * budget / size {
		write()
	}
	if _, err := s.pinned(oldest.Revision()); !errors.Is(err, ErrCompacted) {
		t.Errorf("above the limit: %v, want %v", err, ErrCompacted)
	}
	if n := s.Stats().Pins; n == 0 || n > budget/size {
		t.Errorf("%d pins are left", n)
	}
}
