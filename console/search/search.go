// Package search finds objects of all kinds by name, and lists namespaces.
package search

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"kelson.dev/console/internal/cluster"
	"kelson.dev/console/internal/inventory"
	"kelson.dev/console/internal/web"
)

// Server serves the requests of the search.
type Server struct {
	Cluster   *cluster.Cluster
	Inventory *inventory.Inventory
}

// Routes registers the handlers.
func (s *Server) Routes(mux *http.ServeMux) {
	mux.Handle("GET /api/search", web.Func(s.search))
	mux.Handle("GET /api/namespaces", web.Func(s.namespaces))
}

// maxResults bounds the objects of a response.
const maxResults = 50

// Result is a found object.
type Result struct {
	Resource  string `json:"resource"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// search finds the objects whose kind, namespace and name contain all words of the query. Names
// that begin with the query come first.
func (s *Server) search(r *http.Request) (any, error) {
	defer s.Inventory.Use()()
	words := strings.Fields(strings.ToLower(r.URL.Query().Get("q")))
	found := []Result{}
	if len(words) == 0 {
		return map[string]any{"objects": found, "synced": true}, nil
	}
	snapshot := s.Inventory.Snapshot()
	for _, o := range snapshot.Objects {
		text := strings.ToLower(o.Kind + " " + o.Namespace + "/" + o.Name)
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			found = append(found, Result{o.Resource, o.Kind, o.Namespace, o.Name})
		}
	}
	last := words[len(words)-1]
	rank := func(r Result) int {
		switch name := strings.ToLower(r.Name); {
		case name == last:
			return 0
		case strings.HasPrefix(name, last):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(found, func(a, b Result) int {
		return cmp.Or(rank(a)-rank(b), len(a.Name)-len(b.Name), strings.Compare(a.Name, b.Name))
	})
	more := max(0, len(found)-maxResults)
	return map[string]any{"objects": found[:len(found)-more], "more": more, "synced": snapshot.Synced}, nil
}

// namespaces lists the names of namespaces. A user who may not list namespaces can still specify
// one in the address.
func (s *Server) namespaces(r *http.Request) (any, error) {
	names, err := s.Cluster.Namespaces(r.Context())
	if err != nil {
		return nil, err
	}
	return map[string]any{"namespaces": names}, nil
}
