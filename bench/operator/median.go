package main

import (
	"slices"

	"kelson.dev/bench/operator/sample"
)

// median is the middle of one figure of several runs.
func median[T any](runs []T, figure func(T) float64) float64 {
	var all []float64
	for _, r := range runs {
		all = append(all, figure(r))
	}
	slices.Sort(all)
	if n := len(all); n%2 == 0 {
		return (all[n/2-1] + all[n/2]) / 2
	}
	return all[len(all)/2]
}

// medians are the middles of each figure of several runs; of what must not happen at all, it is the most.
func medians(runs []sample.Figures) sample.Figures {
	of := func(figure func(sample.Figures) float64) float64 { return median(runs, figure) }
	m := sample.Figures{
		Seconds:    of(func(f sample.Figures) float64 { return f.Seconds }),
		CPU:        of(func(f sample.Figures) float64 { return f.CPU }),
		Heap:       of(func(f sample.Figures) float64 { return f.Heap }),
		Peak:       of(func(f sample.Figures) float64 { return f.Peak }),
		RSS:        of(func(f sample.Figures) float64 { return f.RSS }),
		Allocated:  of(func(f sample.Figures) float64 { return f.Allocated }),
		Reconciles: of(func(f sample.Figures) float64 { return f.Reconciles }),
	}
	for _, r := range runs {
		m.Conflicts, m.Lost = max(m.Conflicts, r.Conflicts), max(m.Lost, r.Lost)
	}
	return m
}
