// Package history serves the view History: the versions of objects in a file that kelson record
// wrote, or in the data directory of kelson serve --history. Either may still be written.
package history

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"kelson.dev/console/internal/inventory"
	"kelson.dev/console/internal/web"
	"kelson.dev/lab/history"
)

// Server serves the requests of the view.
type Server struct {
	// Source is the file or directory of the history; empty: there is none.
	Source string
	// Moment is the revision whose state the cluster has; 0 if the state is not from a history.
	Moment uint64
	// Inventory has the last writes of objects, for the recent changes without a history.
	Inventory *inventory.Inventory

	source source
}

// Routes registers the handlers.
func (s *Server) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/history", s.resources)
	mux.Handle("GET /api/history/objects", web.Func(s.objects))
	mux.Handle("GET /api/history/versions", web.Func(s.versions))
	mux.Handle("GET /api/history/version", web.Func(s.version))
	mux.Handle("GET /api/history/blame", web.Func(s.blame))
	mux.Handle("GET /api/history/changes", web.Func(s.changes))
	mux.HandleFunc("GET /api/history/recent", s.recent)
}

// Close closes the files.
func (s *Server) Close() { s.source.close() }

// read calls f with the current history, or one that is slightly older; see source.
func (s *Server) read(f func(*history.History) (any, error)) (any, error) {
	if s.Source == "" {
		return nil, web.Errorf(http.StatusNotFound, "no history is connected")
	}
	return s.source.read(s.Source, f)
}

type resource struct {
	history.Resource
	Name    string `json:"name"`
	Objects int    `json:"objects"`
}

// interval is the time between two checks of a stream for new versions.
const interval = time.Second

// resources streams the resources of the history with their objects.
func (s *Server) resources(w http.ResponseWriter, r *http.Request) {
	later := func() <-chan struct{} {
		c := make(chan struct{})
		time.AfterFunc(interval, func() { close(c) })
		return c
	}
	web.States(r.Context(), w, later, 0, func(context.Context) (any, error) {
		if s.Source == "" {
			return map[string]any{"connected": false}, nil
		}
		return s.read(func(h *history.History) (any, error) {
			all := []resource{}
			for _, r := range h.Resources() {
				if n := len(h.Keys(r.Name())); n > 0 {
					all = append(all, resource{r, r.Name(), n})
				}
			}
			oldest, newest := h.Span()
			moment := ""
			if s.Moment > 0 {
				moment = strconv.FormatUint(s.Moment, 10)
			}
			return map[string]any{
				"moment":    moment,
				"connected": true, "source": s.Source, "resources": all, "versions": h.Len(),
				"newest": strconv.FormatUint(h.Newest(), 10), "from": oldest, "to": newest,
			}, nil
		})
	})
}

// Object is an object of the history.
type Object struct {
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	Versions  int       `json:"versions"`
	Time      time.Time `json:"time"` // of the last version
	Deleted   bool      `json:"deleted,omitempty"`
}

const maxObjects = 1000

func (s *Server) objects(r *http.Request) (any, error) {
	return s.read(func(h *history.History) (any, error) {
		all := []Object{}
		keys := h.Keys(r.URL.Query().Get("resource"))
		namespace := r.URL.Query().Get("namespace")
		for _, key := range keys {
			if namespace != "" && key.Namespace != namespace {
				continue
			}
			o := Object{Namespace: key.Namespace, Name: key.Name}
			for v := range h.Versions(key) {
				o.Versions, o.Time, o.Deleted = o.Versions+1, v.Time, v.Deleted
			}
			all = append(all, o)
		}
		// the newest changes first
		slices.SortStableFunc(all, func(a, b Object) int { return b.Time.Compare(a.Time) })
		more := max(0, len(all)-maxObjects)
		return map[string]any{"objects": all[:len(all)-more], "more": more}, nil
	})
}

func key(r *http.Request) history.Key {
	q := r.URL.Query()
	return history.Key{Resource: q.Get("resource"), Namespace: q.Get("namespace"), Name: q.Get("name")}
}

// Version is a version of an object with its changes.
type Version struct {
	Revision uint64           `json:"revision,string"` // may exceed the integers of JavaScript
	Time     time.Time        `json:"time"`
	Deleted  bool             `json:"deleted,omitempty"`
	Created  bool             `json:"created,omitempty"`
	By       []string         `json:"by,omitempty"` // field managers, the last writer first
	Changes  []history.Change `json:"changes,omitempty"`
	More     int              `json:"more,omitempty"` // number of changes that are omitted
}

const (
	maxVersions = 500
	maxChanges  = 50
)

// versions returns the last versions of an object, each with its changes.
func (s *Server) versions(r *http.Request) (any, error) {
	return s.read(func(h *history.History) (any, error) {
		known := slices.Collect(h.Versions(key(r)))
		skipped := max(0, len(known)-maxVersions)
		all := []Version{}
		var before []byte
		if skipped > 0 {
			_, before, _, _ = h.At(known[skipped-1].Revision).Get(key(r))
		}
		for i, v := range known[skipped:] {
			one := Version{Revision: v.Revision, Time: v.Time, Deleted: v.Deleted}
			_, data, _, err := h.At(v.Revision).Get(key(r))
			if err != nil {
				return nil, err
			}
			if !v.Deleted {
				if one.By, err = managers(before, data, v.Time); err != nil {
					return nil, err
				}
			}
			switch {
			case v.Deleted:
			case before == nil:
				one.Created = i+skipped == 0 || known[i+skipped-1].Deleted
			default:
				if one.Changes, err = history.Diff(before, data, history.DiffOptions{}); err != nil {
					return nil, err
				}
				one.More = max(0, len(one.Changes)-maxChanges)
				one.Changes = one.Changes[:len(one.Changes)-one.More]
			}
			all = append(all, one)
			before = data
		}
		return map[string]any{"versions": all, "earlier": skipped}, nil
	})
}

// version returns an object at a revision, without the values of Secrets.
func (s *Server) version(r *http.Request) (any, error) {
	revision, err := revision(r, "revision")
	if err != nil {
		return nil, err
	}
	return s.read(func(h *history.History) (any, error) {
		_, data, ok, err := h.At(revision).Get(key(r))
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, web.Errorf(http.StatusNotFound, "the object did not exist at revision %d", revision)
		}
		if data, err = history.Redact(data); err != nil {
			return nil, err
		}
		return map[string]any{"object": json.RawMessage(data)}, nil
	})
}

// Field is a field of an object, with the version that gave it its value.
type Field struct {
	Path     string    `json:"path"`
	Value    string    `json:"value"`
	Revision uint64    `json:"revision,string"` // 0 if it is unknown
	Time     time.Time `json:"time"`
	// First means that the field may have had the value before the history began.
	First bool `json:"first,omitempty"`
	// Managers are the names of the managers of the field, the last writer first.
	Managers []string `json:"managers,omitempty"`
}

// blame returns, for each field of an object, the version that gave it its value.
func (s *Server) blame(r *http.Request) (any, error) {
	revision, err := revision(r, "revision")
	if err != nil {
		return nil, err
	}
	return s.read(func(h *history.History) (any, error) {
		found, ok, err := h.At(revision).Blame(key(r), history.DiffOptions{})
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, web.Errorf(http.StatusNotFound, "the object did not exist at revision %d", revision)
		}
		all := []Field{}
		for _, f := range found {
			one := Field{Path: f.Path, Value: f.Value, Revision: f.Version.Revision, Time: f.Version.Time,
				First: f.First}
			for _, o := range f.Owners {
				one.Managers = append(one.Managers, o.Manager)
			}
			all = append(all, one)
		}
		// the most recent changes first
		slices.SortStableFunc(all, func(a, b Field) int { return cmp.Compare(b.Revision, a.Revision) })
		return map[string]any{"fields": all}, nil
	})
}

// revision returns a parameter that is a revision.
func revision(r *http.Request, name string) (uint64, error) {
	n, err := strconv.ParseUint(r.URL.Query().Get(name), 10, 64)
	if err != nil {
		return 0, web.Errorf(http.StatusBadRequest, "%s: must be a revision", name)
	}
	return n, nil
}

// Changed is an object that differs between two moments.
type Changed struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	What      string `json:"what"` // created, deleted, or changed
	Versions  int    `json:"versions"`
}

// changes compares the states at two revisions.
func (s *Server) changes(r *http.Request) (any, error) {
	from, err := revision(r, "from")
	if err != nil {
		return nil, err
	}
	return s.read(func(h *history.History) (any, error) {
		to := h.Newest()
		if r.URL.Query().Get("to") != "" {
			if to, err = revision(r, "to"); err != nil {
				return nil, err
			}
		}
		all := []Changed{}
		for _, resource := range h.Resources() {
			for _, k := range h.Keys(resource.Name()) {
				c := Changed{Resource: k.Resource, Namespace: k.Namespace, Name: k.Name, What: "changed"}
				before, after := false, false
				for v := range h.Versions(k) {
					if v.Revision <= from {
						before, after = !v.Deleted, !v.Deleted
					} else if v.Revision <= to {
						after = !v.Deleted
						c.Versions++
					}
				}
				switch {
				case c.Versions == 0 || !before && !after:
					continue
				case !before:
					c.What = "created"
				case !after:
					c.What = "deleted"
				}
				if all = append(all, c); len(all) == maxObjects {
					return map[string]any{"changes": all, "more": true}, nil
				}
			}
		}
		return map[string]any{"changes": all}, nil
	})
}
