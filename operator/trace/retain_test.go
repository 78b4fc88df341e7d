package trace_test

import (
	"fmt"
	"slices"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/trace"
)

type retained struct {
	n      int
	object string
	failed bool
	change bool
}

func worth(r retained) trace.Retention[string] {
	return trace.Retention[string]{Object: r.object, Failed: r.failed, Changed: r.change}
}

// An object with many records does not displace the failure of another one.
func TestRetain(t *testing.T) {
	var all []retained
	add := func(object string, failed, change bool) {
		all = append(all, retained{len(all), object, failed, change})
	}
	add("failing", false, true)
	for range 3 {
		add("failing", true, false)
	}
	for range 100 {
		add("quiet", false, false)
	}
	for i := range 10_000 {
		add("looping", false, i%1000 == 0)
	}
	kept := trace.Retain(all, 500, worth)
	assert.Equalf(t, len(kept), 500, "records")
	if !slices.IsSortedFunc(kept, func(a, b retained) int { return a.n - b.n }) {
		t.Error("the order has changed")
	}
	count := map[string]int{}
	changes := 0
	for _, r := range kept {
		count[r.object]++
		if r.object == "looping" && r.change {
			changes++
		}
	}
	if count["failing"] != 4 || count["quiet"] != 100 || count["looping"] != 396 || changes != 10 {
		t.Errorf("kept %v, %d changes of the loop", count, changes)
	}
	assert.Equalf(t, kept[len(kept)-1], all[len(all)-1], "the newest")
}

// With a share of two, an object keeps its newest record and its newest failure.
func TestRetainFew(t *testing.T) {
	all := []retained{{0, "a", false, true}, {1, "a", true, false}, {2, "a", false, false}, {3, "a", false, false},
		{4, "a", false, false}}
	var got []int
	for _, r := range trace.Retain(all, 3, worth) {
		got = append(got, r.n)
	}
	if want := []int{0, 1, 4}; !slices.Equal(got, want) { // the success before the failure, too
		t.Errorf("kept %v, want %v", got, want)
	}
}

// The objects that were reconciled last stay if there are too many objects.
func TestRetainManyObjects(t *testing.T) {
	var all []retained
	for i := range 1000 {
		all = append(all, retained{n: i, object: fmt.Sprint(i % 500)})
	}
	kept := trace.Retain(all, 100, worth)
	if len(kept) == 0 || len(kept) > 100 {
		t.Fatalf("%d records", len(kept))
	}
	last := kept[len(kept)-1]
	assert.Equalf(t, last.n, 999, "the newest is %v", last)
}
