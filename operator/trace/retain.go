package trace

import "slices"

// Retention says how much a record is worth when not all can be kept.
type Retention[O comparable] struct {
	Object  O    // that was reconciled, with its controller
	Failed  bool // the reconcile returned an error
	Changed bool // it changed an object
}

// minRetained is how many records of each object are kept at least, if the limit allows it for all
// objects: the newest failure, the success before it, and some newest ones.
const minRetained = 4

// Retain returns at most limit of the records, in their order, which is that of time. Objects with
// many records lose some before others lose any, so that one busy object does not erase the history
// of the others. Of each object, the newest failure, the success before it, and then the newest
// changes, for half of its share, are kept before the newest other records.
func Retain[R any, O comparable](records []R, limit int, worth func(R) Retention[O]) []R {
	if len(records) <= limit {
		return records
	}
	byObject := map[O][]int{}
	values := make([]Retention[O], len(records))
	var objects []O // in the order of their newest records, newest last
	newest := map[O]int{}
	for i, r := range records {
		values[i] = worth(r)
		byObject[values[i].Object] = append(byObject[values[i].Object], i)
		newest[values[i].Object] = i
	}
	for o := range byObject {
		objects = append(objects, o)
	}
	slices.SortFunc(objects, func(a, b O) int { return newest[a] - newest[b] })
	room := limit
	for i, o := range slices.Backward(objects) {
		if room -= min(len(byObject[o]), minRetained); room < 0 && i < len(objects)-1 {
			objects = objects[i+1:] // those that were reconciled last
			break
		}
	}
	share := fairShare(objects, byObject, limit)
	kept := make([]bool, len(records))
	for _, o := range objects {
		retainObject(byObject[o], values, share, kept)
	}
	var all []R
	for i, r := range records {
		if kept[i] {
			all = append(all, r)
		}
	}
	return all
}

// fairShare returns the largest number of records for each object with which the sum is at most
// limit, or 1.
func fairShare[O comparable](objects []O, byObject map[O][]int, limit int) int {
	counts := make([]int, len(objects))
	for i, o := range objects {
		counts[i] = len(byObject[o])
	}
	slices.Sort(counts)
	for i, n := range counts {
		rest := len(counts) - i
		if n*rest > limit {
			return max(limit/rest, 1)
		}
		limit -= n
	}
	return max(limit, 1)
}

// retainObject marks the records of one object that are kept.
func retainObject[O comparable](indexes []int, values []Retention[O], share int, kept []bool) {
	left := share
	keep := func(i int) {
		if left > 0 && !kept[i] {
			kept[i] = true
			left--
		}
	}
	keep(indexes[len(indexes)-1])
	failed := false
	for _, i := range slices.Backward(indexes) {
		if !failed && values[i].Failed {
			failed = true
			keep(i)
		} else if failed && !values[i].Failed {
			keep(i)
			break
		}
	}
	changes := share / 2
	for _, i := range slices.Backward(indexes) {
		if values[i].Changed && changes > 0 {
			changes--
			keep(i)
		}
	}
	for _, i := range slices.Backward(indexes) {
		keep(i)
	}
}
