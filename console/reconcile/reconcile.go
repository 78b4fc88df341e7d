// Package reconcile serves the view Reconcile: the recorded reconciles and the queues, and each
// reconcile with its causes, reads, writes, logs and effects.
package reconcile

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"kelson.dev/console/internal/traces"
	"kelson.dev/console/internal/web"
	"kelson.dev/lab/causes"
	"kelson.dev/operator/trace"
)

// Server serves the requests of the view.
type Server struct{ Traces *traces.Traces }

// Routes registers the handlers.
func (s *Server) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/reconciles", s.list)
	mux.HandleFunc("GET /api/reconcile", s.one)
	mux.Handle("GET /api/chain", web.Func(s.chain))
}

const (
	pace    = 250 * time.Millisecond
	maxList = 300
)

// Controller summarizes the reconciles of a controller.
type Controller struct {
	Name       string        `json:"name"`
	Reconciles int           `json:"reconciles"`
	Errors     int           `json:"errors"`
	Idle       int           `json:"idle"` // reconciles that wrote nothing
	Median     time.Duration `json:"median"`
	Slowest    time.Duration `json:"slowest"`
	// Queue is the state at the start of the last reconcile; nil if the trace has none. Longest is
	// the longest time that an object was ready before its reconcile started.
	Queue   *trace.LineQueue `json:"queue,omitempty"`
	Longest time.Duration    `json:"longest,omitempty"`
}

// list streams the last reconciles that match the query, the newest first, and a summary of all.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	controller, text, failed := q.Get("controller"), strings.ToLower(q.Get("q")), q.Get("failed") == "true"
	web.States(r.Context(), w, s.Traces.Changed, pace, func(context.Context) (any, error) {
		records := s.Traces.Records()
		found := []*trace.LineRecord{}
		matching := 0
		for i := len(records) - 1; i >= 0; i-- {
			r := records[i]
			if controller != "" && r.Controller != controller || failed && r.Error == "" ||
				text != "" && !strings.Contains(strings.ToLower(causes.Reconciled(r).String()+" "+r.Error), text) {
				continue
			}
			if matching++; len(found) < maxList {
				found = append(found, r)
			}
		}
		return map[string]any{
			"reconciles": found, "matching": matching, "controllers": summarize(records),
			"traced": s.Traces.Sources() > 0, "errors": s.Traces.Errors(),
		}, nil
	})
}

func summarize(records []*trace.LineRecord) []*Controller {
	byName := map[string]*Controller{}
	durations := map[string][]time.Duration{}
	all := []*Controller{}
	for _, r := range records {
		c := byName[r.Controller]
		if c == nil {
			c = &Controller{Name: r.Controller}
			byName[r.Controller] = c
			all = append(all, c)
		}
		stands := 1 + r.Repeats // how many reconciles the record stands for
		c.Reconciles += stands
		if r.Error != "" {
			c.Errors += stands
		}
		if !slices.ContainsFunc(r.Writes, func(w trace.LineWrite) bool { return w.Changed || w.Error != "" }) {
			c.Idle += stands
		}
		if r.Queue != nil {
			c.Queue = r.Queue
			waited, _ := time.ParseDuration(r.Queue.Waited)
			c.Longest = max(c.Longest, waited)
		}
		if d, err := time.ParseDuration(r.Duration); err == nil {
			durations[r.Controller] = append(durations[r.Controller], d)
		}
	}
	for _, c := range all {
		if d := durations[c.Name]; len(d) > 0 {
			slices.Sort(d)
			c.Median, c.Slowest = d[len(d)/2], d[len(d)-1]
		}
	}
	slices.SortFunc(all, func(a, b *Controller) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// id returns the run and the number that a request names. The run "-" stands for an empty one,
// because a path cannot have an empty element.
func id(r *http.Request) (run string, number uint64, err error) {
	q := r.URL.Query()
	if number, err = strconv.ParseUint(q.Get("id"), 10, 64); err != nil {
		return "", 0, web.Errorf(http.StatusBadRequest, "id: must be a number")
	}
	if run = q.Get("run"); run == "-" {
		run = ""
	}
	return run, number, nil
}

// maxChain bounds the reconciles of a chain in each direction.
const maxChain = 500

// chain returns the IDs, as run/number, of the reconciles that led to one, and of those to which it
// led.
func (s *Server) chain(r *http.Request) (any, error) {
	run, number, err := id(r)
	if err != nil {
		return nil, err
	}
	record := s.Traces.Record(run, number)
	if record == nil {
		return nil, web.Errorf(http.StatusNotFound, "no trace has reconcile %d of this run", number)
	}
	ids := []string{}
	for _, r := range s.Traces.Connected(record, maxChain) {
		ids = append(ids, r.Run+"/"+strconv.FormatUint(r.ID, 10))
	}
	return map[string]any{"ids": ids}, nil
}

// one returns a reconcile with its causes, and its reads, writes and logs.
func (s *Server) one(w http.ResponseWriter, r *http.Request) {
	run, number, err := id(r)
	if err != nil {
		web.Fail(w, err)
		return
	}
	web.States(r.Context(), w, s.Traces.Changed, pace, func(context.Context) (any, error) {
		record := s.Traces.Record(run, number)
		if record == nil {
			return nil, web.Errorf(http.StatusNotFound, "no trace has reconcile %d of this run", number)
		}
		return map[string]any{"reconcile": s.Traces.Chain(record), "steps": steps(s.Traces, record)}, nil
	})
}
