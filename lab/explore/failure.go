package explore

// Failure is an alarm in a file, as kelson explore --export and --failure write it in JSON.
type Failure struct {
	Oracle string `json:"oracle"`
	What   string `json:"what"`
	Detail string `json:"detail"`
	// Finding is What, Oracle and Detail as a text.
	Finding string `json:"finding"`
	// Plan is the shortest plan that causes it, in the form that ParsePlan reads.
	Plan string `json:"plan"`
	// Seen is in how many of Runs runs of the plan the alarm was raised.
	Seen int `json:"seen"`
	Runs int `json:"runs"`
	// Steps are those of Failing.
	Steps []string `json:"steps"`
	// Curve says when the failure became inevitable.
	Curve []CurvePoint `json:"curve,omitempty"`
	// Passing is the run without faults that Failing is compared with.
	Passing *FailureRun `json:"passing,omitempty"`
	Failing *FailureRun `json:"failing,omitempty"`
}

// FailureRun is one of the two runs of a Failure.
type FailureRun struct {
	Plan string `json:"plan"`
	// Steps are what happened, in order: each begins with "input: " for an action of a user,
	// "request: ", "response: " or "event: " for what the operator sent or received, "server: " for
	// a write of the control plane's own controllers, "FAULT " or "ALARM ".
	Steps []string `json:"steps"`
	// Times are when the steps happened, in seconds since the first: virtual, unless the operator
	// ran as a process.
	Times []float64 `json:"times,omitempty"`
	// Objects are the objects that the run had changed when the operator was quiet after the last
	// input, without values that differ between equal runs, by "RESOURCE NAMESPACE/NAME". The
	// values are lists, because several objects may have the same generated name. They are missing
	// if the run ended before.
	Objects map[string][]map[string]any `json:"objects,omitempty"`
}

// run returns the run of a plan.
func (r *result) run(plan Plan) *FailureRun {
	return &FailureRun{Plan: plan.String(), Steps: r.steps, Times: r.times, Objects: r.end.objects}
}

func (a Alarm) failure() *Failure {
	return &Failure{Oracle: a.Oracle, What: a.What, Detail: a.Detail, Finding: a.finding(), Plan: a.Plan.String(), Seen: a.Seen, Runs: a.Runs,
		Steps: a.Steps, Curve: a.Curve, Passing: a.passing, Failing: a.failing}
}

// complete adds to an alarm its run, the plan of the run, and in how many runs of the plan the
// alarm was raised.
func (a *Alarm) complete(plan Plan, r, reference *result, seen, runs int) {
	a.Plan, a.Steps, a.Seen, a.Runs = plan, r.steps, seen, runs
	a.passing, a.failing = reference.run(nil), r.run(plan)
}
