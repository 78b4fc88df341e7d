package main

import (
	"slices"

	"kelson.dev/bench/operator/sample"
)

// extract returns one value of each run.
func extract[T, R any](runs []T, value func(T) R) (all []R) {
	for _, r := range runs {
		all = append(all, value(r))
	}
	return all
}

// median returns the median of several figures.
func median(figures []float64) float64 {
	all := slices.Sorted(slices.Values(figures))
	if n := len(all); n%2 == 0 {
		return (all[n/2-1] + all[n/2]) / 2
	}
	return all[len(all)/2]
}

// medians returns the median of each figure of several runs; for figures that must be zero, it
// returns the maximum.
func medians(runs []sample.Figures) sample.Figures {
	middle := func(figure func(sample.Figures) float64) float64 { return median(extract(runs, figure)) }
	m := sample.Figures{
		Seconds:    middle(func(f sample.Figures) float64 { return f.Seconds }),
		CPU:        middle(func(f sample.Figures) float64 { return f.CPU }),
		Heap:       middle(func(f sample.Figures) float64 { return f.Heap }),
		Peak:       middle(func(f sample.Figures) float64 { return f.Peak }),
		RSS:        middle(func(f sample.Figures) float64 { return f.RSS }),
		Allocated:  middle(func(f sample.Figures) float64 { return f.Allocated }),
		Reconciles: middle(func(f sample.Figures) float64 { return f.Reconciles }),
	}
	for _, r := range runs {
		m.Conflicts, m.Lost = max(m.Conflicts, r.Conflicts), max(m.Lost, r.Lost)
	}
	return m
}
