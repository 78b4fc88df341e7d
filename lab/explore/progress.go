package explore

import (
	"time"

	"kelson.dev/operator/client"
)

// progress is how far a run has followed its plan and its inputs. Only the goroutine of the trial
// uses it. The counts only grow, and a fault that is done stays done.
type progress struct {
	counts    map[Point]int    // how often a point was reached, by a Point without N
	fired     int              // how many faults at points have happened
	done      []bool           // the faults of the plan that have happened
	created   map[string]bool  // resources of which the operator has tried to create an object
	revisions map[Point]uint64 // the revision of the store before a point

	inputs int  // how many actions of users were made, with the deletions at the end
	last   bool // all inputs were made
	waits  []waiting
	copies []client.Object // that Batch has created
}

// waiting is the beginning of an input that lets time pass.
type waiting struct {
	begin time.Time
	state State
}

func newProgress(p Plan) *progress {
	return &progress{counts: map[Point]int{}, done: make([]bool, len(p)), created: map[string]bool{},
		revisions: map[Point]uint64{}}
}
