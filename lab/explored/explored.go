// Package explored has the result of kelson explore that other programs read: a failure in a file,
// as kelson explore --export and --failure write it in JSON. The console shows such files without
// the explorer, which only tests and the command import.
package explored

import (
	"encoding/json"
	"fmt"
	"os"
)

// Failure is an alarm in a file. Files that were written by hand may lack fields.
type Failure struct {
	Oracle string `json:"oracle"`
	What   string `json:"what"`
	Detail string `json:"detail"`
	// Finding is a text with What, Oracle and Detail of the alarm.
	Finding string `json:"finding"`
	// Server is a property of the API server that the failure needs, for example that it serves no
	// watch lists; "" if it needs none.
	Server string `json:"server,omitempty"`
	// SameAs is the plan of an earlier alarm that probably has the same cause.
	SameAs string `json:"sameAs,omitempty"`
	// Plan is the shortest plan that causes the failure, in the form that kelson explore --plan
	// reads.
	Plan string `json:"plan"`
	// Seen is the number of runs of the plan, out of Runs, that raised the alarm.
	Seen int `json:"seen"`
	Runs int `json:"runs"`
	// Steps are the steps of Failing.
	Steps []string `json:"steps"`
	// Curve shows when the failure became inevitable.
	Curve []Point `json:"curve,omitempty"`
	// Passing is the run without faults with which Failing is compared; nil if the file has none.
	Passing *Run `json:"passing,omitempty"`
	Failing *Run `json:"failing,omitempty"`
}

// Run is one of the two runs of a Failure.
type Run struct {
	Plan string `json:"plan"`
	// Steps lists the events of the run in order. Each begins with "input: " for an action of a
	// user, "request: ", "response: " or "event: " for messages that the operator sent or received,
	// "server: " for a write of the control plane's own controllers, "FAULT " or "ALARM ".
	Steps []string `json:"steps"`
	// Times are the times of the steps, in seconds since the first. They are virtual, unless the
	// operator ran as a process. Files of older versions of kelson have none.
	Times []float64 `json:"times,omitempty"`
	// Objects are the objects that the run had changed when the operator was quiet after the last
	// input, without values that differ between equal runs, by "RESOURCE NAMESPACE/NAME". The
	// values are lists, because several objects may have the same generated name. Objects is empty
	// if the run ended before that.
	Objects map[string][]map[string]any `json:"objects,omitempty"`
}

// Point counts failures of runs that take the same steps as the failing run up to a certain step,
// and then continue in other orders and without further faults.
type Point struct {
	// Step is the index in Failure.Steps of the last step that the runs share with the failing run,
	// and Text is that step.
	Step int    `json:"step"`
	Text string `json:"text"`
	// Failures is the number of runs, out of Runs, that raise an alarm.
	Failures int `json:"failures"`
	Runs     int `json:"runs"`
}

// Read reads the failure in a file. A file with a plan, steps or a curve alone is a failure too.
func Read(name string) (*Failure, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f := &Failure{}
	if err := json.Unmarshal(data, f); err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrNoFailure, name, err)
	}
	if f.What == "" && f.Plan == "" && len(f.Curve) == 0 && len(f.Steps) == 0 && f.Failing == nil {
		return nil, fmt.Errorf("%w %s: it has no plan, steps or curve: kelson explore writes failures", ErrNoFailure, name)
	}
	if f.Failing == nil && len(f.Steps) > 0 {
		f.Failing = &Run{Plan: f.Plan, Steps: f.Steps}
	}
	return f, nil
}
