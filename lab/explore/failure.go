package explore

// Failure is an alarm in a file, as kelson explore --export and --failure write it in JSON.
type Failure struct {
	Oracle string `json:"oracle"`
	What   string `json:"what"`
	Detail string `json:"detail"`
	// Finding is a text with What, Oracle and Detail of the alarm.
	Finding string `json:"finding"`
	// Server is Alarm.Server.
	Server string `json:"server,omitempty"`
	// SameAs is the plan of an earlier alarm that probably has the same cause.
	SameAs string `json:"sameAs,omitempty"`
	// Plan is the shortest plan that causes it, in the form that ParsePlan reads.
	Plan string `json:"plan"`
	// Seen is the number of runs of the plan, out of Runs, that raised the alarm.
	Seen int `json:"seen"`
	Runs int `json:"runs"`
	// Steps are the steps of Failing.
	Steps []string `json:"steps"`
	// Curve shows when the failure became inevitable.
	Curve []CurvePoint `json:"curve,omitempty"`
	// Passing is the run without faults with which Failing is compared.
	Passing *FailureRun `json:"passing,omitempty"`
	Failing *FailureRun `json:"failing,omitempty"`
}

// FailureRun is one of the two runs of a Failure.
type FailureRun struct {
	Plan string `json:"plan"`
	// Steps lists the events of the run in order. Each begins with "input: " for an action of a
	// user, "request: ", "response: " or "event: " for messages that the operator sent or received,
	// "server: " for a write of the control plane's own controllers, "FAULT " or "ALARM ".
	Steps []string `json:"steps"`
	// Times are the times of the steps, in seconds since the first. They are virtual, unless the
	// operator ran as a process.
	Times []float64 `json:"times,omitempty"`
	// Objects are the objects that the run had changed when the operator was quiet after the last
	// input, without values that differ between equal runs, by "RESOURCE NAMESPACE/NAME". The
	// values are lists, because several objects may have the same generated name. Objects is empty
	// if the run ended before that.
	Objects map[string][]map[string]any `json:"objects,omitempty"`
}

// run returns the run of a plan.
func (r *result) run(plan Plan) *FailureRun {
	return &FailureRun{Plan: plan.String(), Steps: r.steps, Times: r.times, Objects: r.end.objects}
}

func (a Alarm) failure() *Failure {
	f := &Failure{Oracle: a.Oracle, What: a.What, Detail: a.Detail, Finding: a.finding(), Server: a.Server,
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
	if reference != nil {
		a.passing = reference.run(nil)
	}
}
