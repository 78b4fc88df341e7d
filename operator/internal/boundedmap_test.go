package internal_test

import (
	"maps"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/internal/boundedmap"
)

// The map holds its last two generations of entries and reports those that it drops. Once full, it
// allocates nothing.
func TestMap(t *testing.T) {
	var gone []string
	m := boundedmap.New[int](3, func(v string) { gone = append(gone, v) })
	check := func(when string, want map[int]string) {
		t.Helper()
		got := map[int]string{}
		for k := range 20 {
			if v, ok := m.Get(k); ok {
				got[k] = v
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: it has %v, want %v", when, got, want)
		}
	}
	check("new", nil)
	for k := range 6 {
		m.Set(k, "a")
	}
	check("two generations", map[int]string{0: "a", 1: "a", 2: "a", 3: "a", 4: "a", 5: "a"})
	if len(gone) > 0 {
		t.Errorf("gone too soon: %q", gone)
	}
	m.Set(6, "a")
	assert.Lenf(t, gone, 3, "gone")
	m.Set(4, "b")
	check("the third", map[int]string{3: "a", 4: "b", 5: "a", 6: "a"})
	if got, want := m.Drop(func(k int) bool {
		return k == 4 || k == 5
	}), (map[int]string{4: "b", 5: "a"}); !maps.Equal(got, want) {
		t.Errorf("dropped %v, want %v", got, want)
	}
	check("some dropped", map[int]string{3: "a", 6: "a"})
	for k := range 6 {
		m.Set(10+k, "c")
	}
	check("all before the last two generations are gone", map[int]string{12: "c", 13: "c", 14: "c", 15: "c"})
	if len(gone) != 3+2+2 { // the two that were set again, and 3 and 6
		t.Errorf("gone: %q", gone)
	}
	m = boundedmap.New[int, string](3, nil)
	n := testing.AllocsPerRun(100, func() {
		for k := range 12 {
			m.Set(k, "d")
		}
	})
	assert.Equalf(t, n, 0, "allocations once it is full")
}
