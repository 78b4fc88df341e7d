// Package why serves the view Why: from an object back to the first causes of its state, and
// forward to its effects.
package why

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"kelson.dev/console/internal/cluster"
	"kelson.dev/console/internal/traces"
	"kelson.dev/console/internal/web"
	"kelson.dev/lab/causes"
	"kelson.dev/lab/diagnosis"
)

// Server serves the requests of the view.
type Server struct {
	Traces *traces.Traces
	// Cluster reads the object and its owners, and Diagnosis what explains its state.
	Cluster   *cluster.Cluster
	Diagnosis diagnosis.Cluster
}

// Routes registers the handlers.
func (s *Server) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/why", s.why)
	mux.HandleFunc("GET /api/traced", s.objects)
}

const (
	pace        = 200 * time.Millisecond
	defaultLast = 5
	maxLast     = 200
	maxEffects  = 30
	maxObjects  = 200
)

// State explains why an object is in its state.
type State struct {
	causes.Explanation
	// Effects are the last reconciles that the object caused, with their writes, the newest first.
	Effects []*causes.Reconcile `json:"effects,omitempty"`
	Traced  bool                `json:"traced"`
	// Recorded is whether the traces have any reconciles.
	Recorded bool              `json:"recorded"`
	Errors   map[string]string `json:"errors,omitempty"` // of traces, by place
	// Diagnosed is nil if the cluster does not have the object.
	Diagnosed *Diagnosed `json:"diagnosed,omitempty"`
	// Owners are the owner of the object, that owner's owner and so on, if the explanation is about
	// the last of them: the nearest one that the traces have. Empty if it is about the object.
	Owners []diagnosis.Ref `json:"owners,omitempty"`
}

func (s *Server) why(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	o := causes.Object{Cluster: q.Get("cluster"), Kind: q.Get("kind"), Namespace: q.Get("namespace"),
		Name: q.Get("name")}
	last, err := strconv.Atoi(cmp.Or(q.Get("last"), strconv.Itoa(defaultLast)))
	if err != nil || last < 1 || last > maxLast {
		web.Fail(w, web.Errorf(http.StatusBadRequest, "last: must be between 1 and %d", maxLast))
		return
	}
	d := &diagnosing{Server: s, resource: q.Get("resource"), namespace: o.Namespace, name: o.Name}
	web.States(r.Context(), w, d.changed(r.Context(), s.Traces.Changed), pace, func(ctx context.Context) (any, error) {
		diagnosed, err := d.current(ctx)
		if err != nil {
			return nil, err
		}
		state := s.explain(o, last)
		state.Diagnosed = diagnosed
		if d.object != nil && !state.known() {
			chain, found := d.owners(ctx, func(owner diagnosis.Ref) bool {
				// its kind may have no namespaces
				for _, namespace := range []string{owner.Namespace, ""} {
					of := s.explain(causes.Object{Kind: owner.Kind, Namespace: namespace, Name: owner.Name}, last)
					if of.known() {
						state = of
						state.Diagnosed = diagnosed
						return true
					}
				}
				return false
			})
			if found {
				state.Owners = chain
			}
		}
		return state, nil
	})
}

// known reports whether the traces have the object.
func (s State) known() bool {
	return len(s.Writes)+len(s.Reconciles)+len(s.Unsettled)+len(s.Loops)+len(s.Effects) > 0
}

// explain returns what the traces have about an object.
func (s *Server) explain(o causes.Object, last int) State {
	state := State{Explanation: s.Traces.Explain(o, last), Traced: s.Traces.Sources() > 0, Errors: s.Traces.Errors()}
	state.Caused = nil // Effects has these
	// The page shows the newest first, each with all its causes.
	for i, w := range state.Writes {
		state.Writes[i].By = s.Traces.Chain(w.By.LineRecord)
	}
	for i, r := range state.Reconciles {
		state.Reconciles[i] = s.Traces.Chain(r.LineRecord)
	}
	records := s.Traces.Records()
	state.Recorded = len(records) > 0
	for i := len(records) - 1; i >= 0 && len(state.Effects) < maxEffects; i-- {
		for c := range records[i].Causes {
			if causes.Caused(&records[i].Causes[c]) == o {
				state.Effects = append(state.Effects, &causes.Reconcile{LineRecord: records[i]})
				break
			}
		}
	}
	return state
}

// Traced is an object that operators reconciled or wrote.
type Traced struct {
	causes.Object
	Time   time.Time `json:"time"`
	Writes int       `json:"writes"`
	Failed bool      `json:"failed,omitempty"` // its last reconcile or write
}

// objects streams the objects of the traces, the one that changed last first.
func (s *Server) objects(w http.ResponseWriter, r *http.Request) {
	web.States(r.Context(), w, s.Traces.Changed, pace, func(context.Context) (any, error) {
		found := map[causes.Object]*Traced{}
		at := func(o causes.Object, when time.Time) *Traced {
			if found[o] == nil {
				found[o] = &Traced{Object: o}
			}
			found[o].Time = when
			return found[o]
		}
		for _, r := range s.Traces.Records() {
			at(causes.Reconciled(r), r.Time).Failed = r.Error != ""
			for i := range r.Writes {
				if write := &r.Writes[i]; write.Changed || write.Error != "" {
					o := at(causes.Written(write), r.Time)
					o.Writes++
					o.Failed = write.Error != "" || o.Object == causes.Reconciled(r) && r.Error != ""
				}
			}
		}
		all := make([]*Traced, 0, len(found))
		for _, o := range found {
			all = append(all, o)
		}
		slices.SortFunc(all, func(a, b *Traced) int {
			return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.String(), b.String()))
		})
		return map[string]any{
			"objects": all[:min(len(all), maxObjects)], "more": max(0, len(all)-maxObjects),
			"traced": s.Traces.Sources() > 0, "errors": s.Traces.Errors(),
		}, nil
	})
}
