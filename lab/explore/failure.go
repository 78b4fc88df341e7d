package explore

import "kelson.dev/lab/explored"

// run returns the run of a plan.
func (r *result) run(plan Plan) *explored.Run {
	return &explored.Run{Plan: plan.String(), Steps: r.steps, Times: r.times, Objects: r.end.objects}
}

func (a Alarm) failure() *explored.Failure {
	f := &explored.Failure{Oracle: a.Oracle, What: a.What, Detail: a.Detail, Finding: a.finding(), Server: a.Server,
		Plan: a.Plan.String(), Seen: a.Seen, Runs: a.Runs,
		Steps: a.Steps, Curve: a.Curve, Passing: a.passing, Failing: a.failing}
	if a.SameAs != nil {
		f.SameAs = a.SameAs.String()
	}
	return f
}

// complete adds to an alarm its run, the plan of the run, and the number of runs of the plan that
// raised the alarm. The reference is the run without faults; nil if that has raised the alarm.
func (a *Alarm) complete(plan Plan, r, reference *result, seen, runs int) {
	a.Plan, a.Steps, a.Seen, a.Runs = plan, r.steps, seen, runs
	a.Server = r.staleServer(plan)
	a.failing = r.run(plan)
	a.effects = effectsOf(plan, r, reference)
	if reference != nil {
		a.passing = reference.run(nil)
	}
}
