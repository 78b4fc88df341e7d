// Package median has the median of measurements.
package median

import "slices"

// Of returns the median of values, which must not be empty: the mean of the two in the middle if
// their number is even.
func Of[T ~int64 | ~float64](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[n/2]
}

// By returns the median of one value of each run.
func By[R any, T ~int64 | ~float64](runs []R, value func(R) T) T {
	values := make([]T, len(runs))
	for i, run := range runs {
		values[i] = value(run)
	}
	return Of(values)
}
