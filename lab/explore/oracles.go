package explore

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// oracles judge a run while it happens: they compare states of the run with earlier ones, and find
// errors that persist. Those that compare whole runs are methods of explorer. Only the goroutine of
// the trial calls them.
type oracles struct {
	setup    *setup
	result   *result
	history  *history
	observed *observed
	progress *progress
	unusual  bool // the operator may return errors for a field
	// failing has the errors that have persisted when the operator was last quiet, by controller
	// and object.
	failing map[string]string
}

// checkRecreated raises an alarm if the state differs from the one before an object was deleted and
// created again. If an input let time pass after the first creation, the operator may have acted
// because of the time, such as a CronJob that starts a Job. It need not do that again for the new
// object. So each object and each field may also be as it was before that time.
func (o *oracles) checkRecreated(obj *unstructured.Unstructured, before State) {
	found := o.changes(before)
	for _, w := range o.progress.waits {
		if w.begin.Before(obj.GetCreationTimestamp().Time) {
			continue
		}
		earlier := o.changes(w.state)
		found = slices.DeleteFunc(found, func(d Difference) bool { return !slices.ContainsFunc(earlier, d.same) })
	}
	o.checkNone("O1", "an object that is created again leads to another state", found, "before")
}

// checkSame raises an alarm if the state differs from the earlier state, and reports whether they
// are equal.
func (o *oracles) checkSame(oracle, what string, earlier State, moment string) bool {
	return o.checkNone(oracle, what, o.changes(earlier), moment)
}

// checkNone raises an alarm with the differences from the state of a moment, if there are any, and
// reports whether there are none.
func (o *oracles) checkNone(oracle, what string, found []Difference, moment string) bool {
	if len(found) > 0 {
		o.result.alarmAbout(different(oracle, what, found, moment))
	}
	return len(found) == 0
}

// changes returns the differences of the state from an earlier state, except for what also differs
// between runs without faults.
func (o *oracles) changes(earlier State) []Difference {
	now := o.history.state()
	found := withoutIgnored(o.setup.scenario.Ignore, now.Diff(earlier))
	if o.setup.varying == nil {
		return found
	}
	x := o.setup.varying.like(earlier)
	return slices.DeleteFunc(found, func(d Difference) bool { return x.mayDiffer(now, d) })
}
