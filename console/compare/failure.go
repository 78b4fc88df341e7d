package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"kelson.dev/console/internal/web"
	"kelson.dev/lab/explored"
	"kelson.dev/lab/history"
)

// after returns the time of a step of a run; nil if it is not known.
func after(r *explored.Run, step int) *float64 {
	if step >= len(r.Times) {
		return nil
	}
	return &r.Times[step]
}

// ReadFailure reads a file of kelson explore.
func ReadFailure(name string) (*explored.Failure, error) {
	f, err := explored.Read(name)
	if errors.Is(err, explored.ErrNoFailure) {
		return nil, web.Errorf(http.StatusUnprocessableEntity, "%v", err)
	}
	if err != nil {
		return nil, err
	}
	f.Steps = nil // those of f.Failing
	return f, nil
}

// FailureState is the page's content about a failure.
type FailureState struct {
	*explored.Failure
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

func (s *FailureState) compare(passing, failing *explored.Run, all bool) {
	if passing == nil {
		for i, step := range failing.Steps {
			s.Rows = append(s.Rows, StepRow{B: i + 1, TextB: step, AfterB: after(failing, i)})
		}
		return
	}
	for _, m := range match(passing.Steps, failing.Steps) {
		row := StepRow{A: m.a + 1, B: m.b + 1, Equal: m.equal, Times: 1}
		if m.a >= 0 {
			row.TextA, row.AfterA = passing.Steps[m.a], after(passing, m.a)
		}
		if m.b >= 0 {
			row.TextB, row.AfterB = failing.Steps[m.b], after(failing, m.b)
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
