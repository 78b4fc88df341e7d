package agent

import (
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/lab/agent/inside"
)

// A process is stalled if it has slept since long while it must answer, or has computed for long.
// Other processes and unknown states do not count.
func TestStall(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		name  string
		turns []uint64
		use   usage
		busy  bool // a thread runs in between
		want  bool
	}{
		{"asleep", []uint64{1, 1, 1}, usage{known: true, asleep: true}, false, true},
		{"need not answer", []uint64{2, 2, 2}, usage{known: true, asleep: true}, false, false},
		{"has answered", []uint64{1, 1, 3}, usage{known: true, asleep: true}, false, false},
		{"runs in between", []uint64{1, 1, 1}, usage{known: true, asleep: true}, true, false},
		{"not known", []uint64{1, 1, 1}, usage{}, false, false},
	} {
		var s stall
		at := now
		for i, turn := range test.turns {
			use := test.use
			if test.busy && i == len(test.turns)-1 {
				use.asleep = false
			}
			s.observe(turn, at, use)
			at = at.Add(stalledAfter)
		}
		got := s.reason(at.Add(-stalledAfter), stalledAfter)
		assert.Equalf(t, got == inside.StandsStill, test.want, "%s: %q", test.name, got)
	}
	var s stall
	s.observe(1, now, usage{known: true})
	s.observe(1, now, usage{known: true, processor: maxComputing + time.Second})
	if got := s.reason(now, stalledAfter); got == "" || got == inside.StandsStill {
		t.Errorf("%q, want that it computes", got)
	}
	if u := usageOf(0); u.known {
		t.Errorf("%+v, want an unknown process", u)
	}
}
