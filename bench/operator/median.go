package main

import (
	"kelson.dev/bench/median"
	"kelson.dev/bench/operator/sample"
)

// extract returns one value of each run.
func extract[T, R any](runs []T, value func(T) R) (all []R) {
	for _, r := range runs {
		all = append(all, value(r))
	}
	return all
}

// medians returns the median of each figure of several runs; for figures that must be zero, it
// returns the maximum.
func medians(runs []sample.Figures) sample.Figures {
	middle := func(figure func(sample.Figures) float64) float64 { return median.By(runs, figure) }
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
