package explore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// result holds what a trial has shown. Only the goroutine of the trial uses it. Its steps and times
// are in the order of the run, one time per step, and only log adds to them.
type result struct {
	began          time.Time // the first step
	end, left      State     // after the inputs; after their objects were deleted
	points         []visit
	counts         counter // until the end of the inputs
	ownObjects     map[string]bool
	states         map[[32]byte]bool
	effect         bool              // SetField has changed more than the field
	failing        map[string]string // the errors that persist, by controller and object
	failingCopies  []string          // the keys in failing that are copies of Batch
	lasting        map[string]string // the errors that no later input ends, with their number
	cached         map[string]bool   // resources of the reads that may return an older state
	sawOld         bool              // a read after a stale restart has returned an older state
	sentWatchLists bool              // the operator has sent watches that begin with a list
	periodic       *periodic         // the periodic writes that the run has found; nil for none
	foreign        string            // the value of a foreign write's field, as JSON; "" for none
	crashes        []moment          // after the last fault
	pruned         bool              // the run ended at a crash that an earlier run also had
	alarms         []Alarm
	steps          []string  // the events of the run, a line each
	times          []float64 // of the steps, in seconds since the first
	digest         [32]byte  // of the steps and of every version, in order
	versions       []string  // all versions, in order; nil unless trial.keepAll
	unused         Plan      // the faults whose points were not reached
	several        bool      // there are other operators, whose memory a kill does not discard
	orderOnly      bool      // random orders are the only faults of the plan
	failed         error     // the scenario itself does not work
}

// visit is a point that the run has reached, with the states before and after it.
type visit struct {
	Point
	before, after [32]byte
	inputs        int
	removed       bool        // an object was removed before
	creates       bool        // a request that creates an object
	generated     bool        // the server generates its name
	first         bool        // of its resource that creates an object
	foreign       []variation // the changes that ForeignWrite may make; only of runs without faults
}

// alarm adds an alarm to the trial's result.
func (r *result) alarm(oracle, what, detail string) {
	r.log("ALARM " + what + ": " + detail)
	r.alarms = append(r.alarms, Alarm{Oracle: oracle, What: what, Detail: detail})
}

// alarmAbout adds an alarm with differences to the trial's result.
func (r *result) alarmAbout(a Alarm) {
	r.alarm(a.Oracle, a.What, a.Detail)
	r.alarms[len(r.alarms)-1] = a
}

// loop describes a hot loop: the number of steps, and the requests that it consists of.
func (r *result) loop(steps int, took time.Duration) string {
	times := map[string]int{}
	for _, step := range r.steps {
		if request, ok := strings.CutPrefix(step, "request: "); ok {
			times[request]++
		}
	}
	var requests []string
	for request := range times {
		requests = append(requests, request)
	}
	slices.SortFunc(requests, func(a, b string) int {
		return cmp.Or(cmp.Compare(times[b], times[a]), cmp.Compare(a, b))
	})
	text := fmt.Sprintf("%d requests and events in %v, and the operator is not quiet", steps, took)
	for i, request := range requests[:min(3, len(requests))] {
		if i == 0 {
			text += "; most often: "
		} else {
			text += ", "
		}
		text += fmt.Sprintf("%s (%d times)", request, times[request])
	}
	return text
}

func (r *result) log(line string) {
	if len(r.steps) == 0 {
		r.began = time.Now()
	}
	r.steps = append(r.steps, line)
	r.times = append(r.times, time.Since(r.began).Seconds())
}
