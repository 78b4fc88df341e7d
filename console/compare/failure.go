package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"kelson.dev/console/internal/web"
	"kelson.dev/lab/history"
)

// Failure is a failure that kelson explore has written. It has the fields of Failure in
// kelson.dev/lab/explore, which only tests import. All fields may be absent.
type Failure struct {
	Oracle string `json:"oracle,omitempty"`
	What   string `json:"what,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Plan is the shortest plan that causes the failure. It was seen in Seen of Runs runs.
	Plan string `json:"plan,omitempty"`
	Seen int    `json:"seen,omitempty"`
	Runs int    `json:"runs,omitempty"`
	// Steps are the steps of the failing run.
	Steps []string `json:"steps,omitempty"`
	// Curve shows when the failure became inevitable: how many of the runs that continue from a
	// step fail.
	Curve []Point `json:"curve,omitempty"`
	// Passing is the run without faults with which Failing is compared; nil if the file has none.
	Passing *FailureRun `json:"passing,omitempty"`
	Failing *FailureRun `json:"failing,omitempty"`
}

// FailureRun is a run of a Failure.
type FailureRun struct {
	Plan  string   `json:"plan,omitempty"`
	Steps []string `json:"steps"`
	// Times are the times of the steps, in seconds since the first; files of older versions of
	// kelson have none.
	Times []float64 `json:"times,omitempty"`
	// Objects are the final states of the objects that the run changed, by "RESOURCE
	// NAMESPACE/NAME".
	Objects map[string][]map[string]any `json:"objects,omitempty"`
}

// after returns the time of a step; nil if it is not known.
func (r *FailureRun) after(step int) *float64 {
	if step >= len(r.Times) {
		return nil
	}
	return &r.Times[step]
}

// Point is a point of the curve. Step is the index of the last step that the runs share with the
// failing run.
type Point struct {
	Step     int    `json:"step"`
	Text     string `json:"text,omitempty"`
	Failures int    `json:"failures"`
	Runs     int    `json:"runs"`
}

// ReadFailure reads a file of kelson explore.
func ReadFailure(name string) (*Failure, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f := &Failure{}
	if err := json.Unmarshal(data, f); err != nil {
		return nil, web.Errorf(http.StatusUnprocessableEntity, "read failure %s: %v", name, err)
	}
	if f.What == "" && f.Plan == "" && len(f.Curve) == 0 && len(f.Steps) == 0 && f.Failing == nil {
		return nil, web.Errorf(http.StatusUnprocessableEntity,
			"read failure %s: it has no plan, steps or curve: kelson explore writes failures", name)
	}
	if f.Failing == nil && len(f.Steps) > 0 {
		f.Failing = &FailureRun{Plan: f.Plan, Steps: f.Steps}
	}
	f.Steps = nil
	return f, nil
}

// FailureState is the page's content about a failure.
type FailureState struct {
	*Failure
	// Rows are the steps of both runs side by side, or only of the failing run. First is the index
	// of the first difference; -1 if there is none.
	Rows  []StepRow `json:"rows"`
	First int       `json:"first"`
	// More is the number of later rows that are not sent.
	More int `json:"more,omitempty"`
	// Different lists the fields of objects in which the final states of the runs differ.
	Different []Field `json:"different,omitempty"`
}

// StepRow is a step in both runs, or in one of them. A and B are the numbers of the step in the run
// without faults and in the failing one, from 1; 0: the run does not have it.
type StepRow struct {
	A     int    `json:"a,omitempty"`
	B     int    `json:"b,omitempty"`
	TextA string `json:"textA,omitempty"`
	TextB string `json:"textB,omitempty"`
	// AfterA and AfterB are the times of the steps, in seconds; nil if the file has none.
	AfterA *float64 `json:"afterA,omitempty"`
	AfterB *float64 `json:"afterB,omitempty"`
	Equal  bool     `json:"equal,omitempty"`
	Times  int      `json:"times,omitempty"` // of equal steps in a row
}

// Field is a field of an object in which the final states of the runs differ. Path is empty if only
// one run has the object.
type Field struct {
	Object string `json:"object"`
	Path   string `json:"path,omitempty"`
	A      string `json:"a,omitempty"`
	B      string `json:"b,omitempty"`
}

const maxFields = 200

// failure returns the failure in the file, or nothing. With all=true, equal steps are listed.
func (s *Server) failure(r *http.Request) (any, error) {
	if s.Failure == "" {
		return map[string]any{}, nil
	}
	f, err := ReadFailure(s.Failure)
	if err != nil {
		return nil, err
	}
	state := &FailureState{Failure: f, Rows: []StepRow{}, First: -1}
	if f.Failing != nil {
		state.compare(f.Passing, f.Failing, r.URL.Query().Get("all") == "true")
	}
	if state.More = max(0, len(state.Rows)-maxRows); state.More > 0 {
		state.Rows = state.Rows[:maxRows]
	}
	if f.Passing != nil && f.Failing != nil && f.Passing.Objects != nil && f.Failing.Objects != nil {
		if state.Different, err = different(f.Passing.Objects, f.Failing.Objects); err != nil {
			return nil, err
		}
	}
	// the page needs only the rows
	withoutRuns := *f
	withoutRuns.Passing, withoutRuns.Failing = nil, nil
	state.Failure = &withoutRuns
	return map[string]any{"failure": state}, nil
}

func (s *FailureState) compare(passing, failing *FailureRun, all bool) {
	if passing == nil {
		for i, step := range failing.Steps {
			s.Rows = append(s.Rows, StepRow{B: i + 1, TextB: step, AfterB: failing.after(i)})
		}
		return
	}
	for _, m := range match(passing.Steps, failing.Steps) {
		row := StepRow{A: m.a + 1, B: m.b + 1, Equal: m.equal, Times: 1}
		if m.a >= 0 {
			row.TextA, row.AfterA = passing.Steps[m.a], passing.after(m.a)
		}
		if m.b >= 0 {
			row.TextB, row.AfterB = failing.Steps[m.b], failing.after(m.b)
		}
		if !m.equal && s.First < 0 {
			s.First = len(s.Rows)
		}
		if last := len(s.Rows) - 1; m.equal && !all && last >= 0 && s.Rows[last].Equal {
			row.Times += s.Rows[last].Times
			s.Rows[last] = row
			continue
		}
		s.Rows = append(s.Rows, row)
	}
}

// different returns the fields in which objects differ. The values of Secrets are hidden.
func different(a, b map[string][]map[string]any) ([]Field, error) {
	names := maps.Clone(a)
	maps.Copy(names, b)
	var fields []Field
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for i := range max(len(a[name]), len(b[name])) {
			one, err := object(name, a[name], i)
			if err != nil {
				return nil, err
			}
			two, err := object(name, b[name], i)
			if err != nil {
				return nil, err
			}
			switch {
			case one == nil:
				fields = append(fields, Field{Object: name, B: "exists"})
				continue
			case two == nil:
				fields = append(fields, Field{Object: name, A: "exists"})
				continue
			}
			changes, err := history.Diff(one, two, history.DiffOptions{})
			if err != nil {
				return nil, fmt.Errorf("compare %s: %w", name, err)
			}
			for _, c := range changes {
				fields = append(fields, Field{name, c.Path, c.From, c.To})
			}
		}
	}
	return fields[:min(len(fields), maxFields)], nil
}

// object returns an object as JSON; nil if the list is shorter.
func object(name string, list []map[string]any, i int) ([]byte, error) {
	if i >= len(list) {
		return nil, nil
	}
	o := list[i]
	if strings.HasPrefix(name, "secrets ") {
		// history.Diff hides the values of objects of this kind; explore may have omitted the kind
		o = maps.Clone(o)
		o["apiVersion"], o["kind"] = "v1", "Secret"
	}
	return json.Marshal(o)
}
