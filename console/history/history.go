// Package history serves the view History: the versions of objects in a file that kelson record
// wrote, or is still writing.
package history

import (
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"kelson.dev/console/internal/web"
	"kelson.dev/lab/history"
)

// Server serves the requests of the view.
type Server struct {
	// File is the history; empty: there is none.
	File string

	mu   sync.Mutex
	open *history.History
	size int64
	time time.Time // of the last change of the file when it was opened
}

// Routes registers the handlers.
func (s *Server) Routes(mux *http.ServeMux) {
	mux.Handle("GET /api/history", web.Func(s.resources))
	mux.Handle("GET /api/history/objects", web.Func(s.objects))
	mux.Handle("GET /api/history/versions", web.Func(s.versions))
	mux.Handle("GET /api/history/version", web.Func(s.version))
	mux.Handle("GET /api/history/changes", web.Func(s.changes))
}

// Close closes the file.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil {
		_ = s.open.Close() // it was only read
		s.open = nil
	}
}

// read calls f with the history as it is now. It opens the file again if it has grown.
func (s *Server) read(f func(*history.History) (any, error)) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.File == "" {
		return nil, web.Errorf(http.StatusNotFound, "no history is connected")
	}
	info, err := os.Stat(s.File)
	if err != nil {
		return nil, err
	}
	if s.open == nil || info.Size() != s.size || !info.ModTime().Equal(s.time) {
		h, err := history.Open(s.File)
		if err != nil {
			return nil, err
		}
		if s.open != nil {
			_ = s.open.Close() // it was only read
		}
		s.open, s.size, s.time = h, info.Size(), info.ModTime()
	}
	return f(s.open)
}

type resource struct {
	history.Resource
	Name    string `json:"name"`
	Objects int    `json:"objects"`
}

// resources returns what the history has.
func (s *Server) resources(*http.Request) (any, error) {
	if s.File == "" {
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
		return map[string]any{
			"connected": true, "file": s.File, "resources": all, "versions": h.Len(), "newest": h.Newest(), "from": oldest, "to": newest,
		}, nil
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
		more := 0
		for _, key := range keys {
			if namespace != "" && key.Namespace != namespace {
				continue
			}
			if len(all) == maxObjects {
				more++
				continue
			}
			o := Object{Namespace: key.Namespace, Name: key.Name}
			for v := range h.Versions(key) {
				o.Versions, o.Time, o.Deleted = o.Versions+1, v.Time, v.Deleted
			}
			all = append(all, o)
		}
		return map[string]any{"objects": all, "more": more}, nil
	})
}

func key(r *http.Request) history.Key {
	q := r.URL.Query()
	return history.Key{Resource: q.Get("resource"), Namespace: q.Get("namespace"), Name: q.Get("name")}
}

// Version is a version of an object and what changed in it.
type Version struct {
	Revision uint64           `json:"revision,string"` // may be too large for numbers of JavaScript
	Time     time.Time        `json:"time"`
	Deleted  bool             `json:"deleted,omitempty"`
	Created  bool             `json:"created,omitempty"`
	Changes  []history.Change `json:"changes,omitempty"`
	More     int              `json:"more,omitempty"` // changes that are omitted
}

const (
	maxVersions = 500
	maxChanges  = 50
)

// versions returns the last versions of an object, with what each changed.
func (s *Server) versions(r *http.Request) (any, error) {
	return s.read(func(h *history.History) (any, error) {
		var known []history.Version
		for v := range h.Versions(key(r)) {
			known = append(known, v)
		}
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
	revision, err := strconv.ParseUint(r.URL.Query().Get("revision"), 10, 64)
	if err != nil {
		return nil, web.Errorf(http.StatusBadRequest, "revision: must be a number")
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
	q := r.URL.Query()
	from, err := strconv.ParseUint(q.Get("from"), 10, 64)
	if err != nil {
		return nil, web.Errorf(http.StatusBadRequest, "from: must be a revision")
	}
	return s.read(func(h *history.History) (any, error) {
		to := h.Newest()
		if text := q.Get("to"); text != "" {
			if to, err = strconv.ParseUint(text, 10, 64); err != nil {
				return nil, web.Errorf(http.StatusBadRequest, "to: must be a revision")
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
