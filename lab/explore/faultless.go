package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// alarmed is the error of a scenario whose first run without faults raises an alarm, so that no
// other run can be compared with it.
type alarmed struct {
	alarms []Alarm // the last one is that of the run
	run    *result
}

func (a *alarmed) Error() string {
	return fmt.Sprintf("without any fault, the operator raises an alarm: %s\nlast steps:\n%s",
		a.alarms[len(a.alarms)-1], tail(a.run.steps, 12))
}

// reported reports whether the alarms are results of the exploration. An operator that ends before
// the first input needs other arguments, or does not run in virtual time; this is an error of the
// scenario.
func (a *alarmed) reported() bool {
	last := a.alarms[len(a.alarms)-1]
	return last.What != operatorEnded && last.What != operatorPanics ||
		slices.ContainsFunc(a.run.steps, func(step string) bool { return strings.HasPrefix(step, "input:") })
}

// The names of alarms (O3).
const (
	operatorEnded  = "the operator ended"
	operatorPanics = "the operator panics"
)

// newAlarmed returns the error for the first alarm of a run without faults, after earlier alarms.
func newAlarmed(r *result, earlier ...Alarm) *alarmed {
	alarm := r.alarms[0]
	alarm.complete(nil, r, nil, 1, 1)
	return &alarmed{append(slices.Clone(earlier), alarm), r}
}

// onlyAlarms returns the report of an exploration without plans.
func (e *explorer) onlyAlarms(a *alarmed, o Options, begin time.Time) Report {
	c := &campaign{explorer: e, options: o, signatures: map[string]bool{}}
	c.report.Points = len(a.run.points)
	c.report.Warnings = append(slices.Clone(e.scenario.warnings),
		"no plan with faults was run, because their runs would be compared with one that raises an alarm")
	for _, alarm := range a.alarms {
		c.add(alarm)
	}
	c.report.Took = time.Since(begin)
	c.report.External, c.report.Unanswered = e.external(), e.unanswered()
	return c.report
}

// pauses are the times between the last changes of objects.
type pauses []time.Duration

func (p *pauses) add(d time.Duration) {
	const kept = 8
	if d == 0 {
		return // changes of the same moment
	}
	if *p = append(*p, d); len(*p) > kept {
		*p = (*p)[1:]
	}
}

// advice says what to do about an operator that changes objects regularly, as a cron job does.
func (p pauses) advice() string {
	const least = time.Minute // after a crash, the next process waits for a Lease
	if len(p) == 0 || slices.Max(p) < least {
		return ""
	}
	period := slices.Max(p).Round(time.Second)
	return fmt.Sprintf("; the longest of the last pauses was %v. If the operator changes them regularly by design, "+
		"set quiet in %s to less, such as %v. A write that a crash delays to the next time is then missing at the end",
		period, ConfigFile, period/2)
}
