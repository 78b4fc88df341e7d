package explore

// Failure is an alarm in a file, as kelson explore --export writes it in JSON.
type Failure struct {
	Oracle string `json:"oracle"`
	What   string `json:"what"`
	Detail string `json:"detail"`
	// Plan is the shortest plan that causes it, in the form that ParsePlan reads.
	Plan string `json:"plan"`
	// Steps are the requests, responses, events and faults of the run.
	Steps []string `json:"steps"`
	// Curve says when the failure became inevitable.
	Curve []CurvePoint `json:"curve,omitempty"`
}

func (a Alarm) failure() *Failure {
	return &Failure{Oracle: a.Oracle, What: a.What, Detail: a.Detail, Plan: a.Plan.String(), Steps: a.Steps, Curve: a.Curve}
}
