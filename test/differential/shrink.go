package main

import (
	"context"
	"fmt"
	"slices"
)

// shrink finds, for the first difference of each group, the fewest requests of its stream that show
// it.
func (r *runner) shrink(ctx context.Context, rep *report, all []*sending) {
	byName := map[string]*stream{}
	for _, s := range all {
		byName[s.round+s.name] = s.stream
	}
	for i, g := range rep.groups {
		d := &g.first[0]
		if s := byName[d.round+d.stream]; s != nil {
			d.request = r.shrunk(ctx, s, d, fmt.Sprintf("k%d", i))
		}
	}
}

// shrunk removes half of the requests before the last one as long as the difference remains, and
// then tries to remove each one.
func (r *runner) shrunk(ctx context.Context, s *stream, d *difference, round string) string {
	tries := 0
	shows := func(before []int) bool {
		tries++
		chosen := map[int]bool{d.step: true}
		for _, i := range before {
			chosen[i] = true
		}
		for _, found := range r.stream(ctx, s, fmt.Sprintf("%s-%d", ownName(s, round), tries), chosen) {
			if found.step == d.step && found.where == d.where && found.peer == d.peer && found.kelson == d.kelson {
				return true
			}
		}
		return false
	}
	before := make([]int, d.step)
	for i := range before {
		before[i] = i
	}
	if !shows(before) {
		return d.request + "\n(seen once; not again when the stream was sent alone)"
	}
	for size := max(1, len(before)); size >= 1 && tries < 60; size /= 2 {
		for from := 0; from < len(before) && tries < 60; {
			to := min(from+size, len(before))
			without := append(append([]int{}, before[:from]...), before[to:]...)
			if shows(without) {
				before = without
			} else {
				from = to
			}
		}
	}
	text := ""
	steps := s.steps("OWN")
	for _, i := range slices.Concat(before, []int{d.step}) {
		text += steps[i].String(newMemory()) + "\n"
	}
	return text
}
