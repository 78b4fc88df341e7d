// Package compare serves the view Compare: two runs of operators side by side, with the first
// reconcile in which they differ, and the curve of a failure.
package compare

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"kelson.dev/console/internal/traces"
	"kelson.dev/console/internal/web"
	"kelson.dev/operator/trace"
)

// Server serves the requests of the view.
type Server struct {
	Traces *traces.Traces
	// Failure is a file of kelson explore; empty: none.
	Failure string
}

// Routes registers the handlers.
func (s *Server) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/compare", s.compare)
	mux.Handle("GET /api/failure", web.Func(s.failure))
}

// Run is one run of an operator: the records of one process.
type Run struct {
	ID          string    `json:"id"`
	Began       time.Time `json:"began"`
	Reconciles  int       `json:"reconciles"`
	Errors      int       `json:"errors"`
	Controllers []string  `json:"controllers"`
}

// State is the content of the page.
type State struct {
	Runs []*Run `json:"runs"` // the newest first
	A    string `json:"a"`    // the compared runs; empty if there are fewer than two
	B    string `json:"b"`
	// Rows are the reconciles of both runs in the order of time; Equal is the number of equal ones,
	// and Different the number of those that differ or are in only one run.
	Rows      []Row `json:"rows"`
	Equal     int   `json:"equal"`
	Different int   `json:"different"`
	// First is the index in Rows of the first difference; -1 if there is none.
	First  int               `json:"first"`
	More   int               `json:"more,omitempty"` // number of rows that are not sent
	Traced bool              `json:"traced"`
	Errors map[string]string `json:"errors,omitempty"`
}

// Row is a reconcile in both runs, or in one of them. A row of equal reconciles may represent
// several.
type Row struct {
	A     *trace.LineRecord `json:"a,omitempty"`
	B     *trace.LineRecord `json:"b,omitempty"`
	Equal bool              `json:"equal,omitempty"`
	Times int               `json:"times,omitempty"` // of equal reconciles in a row, if all=false
}

const (
	pace    = 500 * time.Millisecond
	maxRows = 1000
)

func (s *Server) compare(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	web.States(r.Context(), w, s.Traces.Changed, pace, func(context.Context) (any, error) {
		state, err := compareRuns(s.Traces.Records(), q.Get("a"), q.Get("b"), q.Get("all") == "true")
		if err != nil {
			return nil, err
		}
		state.Traced, state.Errors = s.Traces.Sources() > 0, s.Traces.Errors()
		return state, nil
	})
}

// compareRuns compares two runs; by default, the last two.
func compareRuns(records []*trace.LineRecord, a, b string, all bool) (*State, error) {
	byID := map[string]*Run{}
	state := &State{Runs: []*Run{}, Rows: []Row{}, First: -1}
	for _, r := range records {
		run := byID[r.Run]
		if run == nil {
			run = &Run{ID: r.Run, Began: r.Time}
			byID[r.Run] = run
			state.Runs = append(state.Runs, run)
		}
		run.Reconciles++
		if r.Error != "" {
			run.Errors++
		}
		if !slices.Contains(run.Controllers, r.Controller) {
			run.Controllers = append(run.Controllers, r.Controller)
		}
	}
	slices.Reverse(state.Runs)
	for _, id := range []string{a, b} {
		if id != "" && byID[id] == nil {
			return nil, web.Errorf(http.StatusNotFound, "no trace has a run %q", id)
		}
	}
	if len(state.Runs) < 2 {
		return state, nil
	}
	if b == "" {
		b = state.Runs[0].ID
	}
	if a == "" {
		a = state.Runs[1].ID
		if a == b {
			a = state.Runs[0].ID
		}
	}
	state.A, state.B = a, b
	for _, row := range align(recordsOf(records, a), recordsOf(records, b), byID[a].Began, byID[b].Began) {
		state.add(row, all)
	}
	if len(state.Rows) > maxRows {
		state.More = len(state.Rows) - maxRows
		state.Rows = state.Rows[:maxRows]
	}
	return state, nil
}

func (s *State) add(row Row, all bool) {
	if !row.Equal {
		if s.Different++; s.First < 0 {
			s.First = len(s.Rows)
		}
		s.Rows = append(s.Rows, row)
		return
	}
	s.Equal++
	if last := len(s.Rows) - 1; !all && last >= 0 && s.Rows[last].Equal {
		s.Rows[last].Times++
		s.Rows[last].A, s.Rows[last].B = row.A, row.B
		return
	}
	row.Times = 1
	s.Rows = append(s.Rows, row)
}

func recordsOf(records []*trace.LineRecord, run string) []*trace.LineRecord {
	var all []*trace.LineRecord
	for _, r := range records {
		if r.Run == run {
			all = append(all, r)
		}
	}
	return all
}

// lane identifies the reconciles that are compared with each other: those of one object by one
// controller. The order between lanes may differ in each run.
type lane struct{ controller, cluster, kind, namespace, name string }

func laneOf(r *trace.LineRecord) lane {
	return lane{r.Controller, r.Cluster, r.Kind, r.Namespace, r.Name}
}

// align pairs the reconciles of two runs, in the order of the time since the runs began.
func align(a, b []*trace.LineRecord, beganA, beganB time.Time) []Row {
	inA, inB := map[lane][]*trace.LineRecord{}, map[lane][]*trace.LineRecord{}
	var lanes []lane
	for i, side := range [][]*trace.LineRecord{a, b} {
		into := []map[lane][]*trace.LineRecord{inA, inB}[i]
		for _, r := range side {
			l := laneOf(r)
			if inA[l] == nil && inB[l] == nil {
				lanes = append(lanes, l)
			}
			into[l] = append(into[l], r)
		}
	}
	var rows []Row
	for _, l := range lanes {
		rows = append(rows, pair(inA[l], inB[l])...)
	}
	when := func(r Row) time.Duration {
		switch {
		case r.A == nil:
			return r.B.Time.Sub(beganB)
		case r.B == nil:
			return r.A.Time.Sub(beganA)
		}
		return min(r.A.Time.Sub(beganA), r.B.Time.Sub(beganB))
	}
	slices.SortStableFunc(rows, func(x, y Row) int { return cmp.Compare(when(x), when(y)) })
	return rows
}

// pair pairs the reconciles of a lane.
func pair(a, b []*trace.LineRecord) []Row {
	var rows []Row
	for _, m := range match(signatures(a), signatures(b)) {
		row := Row{Equal: m.equal}
		if m.a >= 0 {
			row.A = a[m.a]
		}
		if m.b >= 0 {
			row.B = b[m.b]
		}
		rows = append(rows, row)
	}
	return rows
}

// signatures returns the compared parts of each reconcile: its writes and its result, without
// resource versions and times, which differ between any two runs.
func signatures(list []*trace.LineRecord) []string {
	all := make([]string, len(list))
	for i, r := range list {
		s := fmt.Sprintf("%q %s", r.Error, r.RequeueAfter)
		for _, w := range r.Writes {
			if w.Changed || w.Error != "" {
				s += fmt.Sprintf(" %s %s %s %s/%s/%s %q", w.Verb, w.Subresource, w.Cluster, w.Kind, w.Namespace, w.Name,
					w.Error)
			}
		}
		all[i] = s
	}
	return all
}
