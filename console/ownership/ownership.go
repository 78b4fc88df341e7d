// Package ownership serves the view Map: how objects own, select and refer to each other, and which
// controllers read and write which kinds.
package ownership

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"kelson.dev/console/internal/inventory"
	"kelson.dev/console/internal/traces"
	"kelson.dev/console/internal/web"
	view "kelson.dev/console/now"
)

// Server serves the requests of the view.
type Server struct {
	Inventory *inventory.Inventory
	Traces    *traces.Traces
}

// Routes registers the handlers.
func (s *Server) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/map", s.graph)
	mux.HandleFunc("GET /api/controllers", s.controllers)
}

const pace = 500 * time.Millisecond

// graph streams the drawing of the objects of one or all namespaces.
func (s *Server) graph(w http.ResponseWriter, r *http.Request) {
	defer s.Inventory.Use()()
	q := r.URL.Query()
	namespace, all, only := q.Get("namespace"), q.Get("all") == "true", q.Get("problems") == "true"
	web.States(r.Context(), w, s.Inventory.Changed, pace, func(context.Context) (any, error) {
		snapshot := s.Inventory.Snapshot()
		objects := slices.DeleteFunc(snapshot.Objects, func(o *inventory.Object) bool {
			return namespace != "" && o.Namespace != namespace || o.Resource == "events"
		})
		now := time.Now()
		tone := func(o *inventory.Object) string { return view.Tone(o, now) }
		state := map[string]any{
			"graph": layout(objects, all, only, tone), "synced": snapshot.Synced, "failures": snapshot.Failures,
		}
		if old := snapshot.Old(); old.Unreachable != "" {
			state["unreachable"], state["known"] = old.Unreachable, old.Known
		}
		return state, nil
	})
}

// Link describes what a controller does with a kind.
type Link struct {
	Controller string `json:"controller"`
	Kind       string `json:"kind"`
	Reconciles int    `json:"reconciles,omitempty"` // of objects of the kind
	Causes     int    `json:"causes,omitempty"`     // events of the kind that caused reconciles
	Writes     int    `json:"writes,omitempty"`     // that changed objects
	Errors     int    `json:"errors,omitempty"`     // writes that failed
}

// controllers streams what the controllers of the traces watch and write.
func (s *Server) controllers(w http.ResponseWriter, r *http.Request) {
	web.States(r.Context(), w, s.Traces.Changed, pace, func(context.Context) (any, error) {
		type key struct{ controller, kind string }
		found := map[key]*Link{}
		at := func(controller, kind string) *Link {
			k := key{controller, kind}
			if found[k] == nil {
				found[k] = &Link{Controller: controller, Kind: kind}
			}
			return found[k]
		}
		for _, r := range s.Traces.Records() {
			at(r.Controller, r.Kind).Reconciles++
			for i := range r.Causes {
				if kind := r.Causes[i].Kind; kind != "" {
					at(r.Controller, kind).Causes++
				}
			}
			for i := range r.Writes {
				switch write := &r.Writes[i]; {
				case write.Error != "":
					at(r.Controller, write.Kind).Errors++
				case write.Changed:
					at(r.Controller, write.Kind).Writes++
				}
			}
		}
		links := []*Link{}
		for _, l := range found {
			links = append(links, l)
		}
		slices.SortFunc(links, func(a, b *Link) int {
			return cmp.Or(cmp.Compare(a.Controller, b.Controller), cmp.Compare(a.Kind, b.Kind))
		})
		return map[string]any{"links": links}, nil
	})
}
