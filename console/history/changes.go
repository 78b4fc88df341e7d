package history

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"kelson.dev/console/internal/inventory"
	"kelson.dev/console/internal/web"
	"kelson.dev/lab/history"
)

// Recent is an object that changed in the last minutes.
type Recent struct {
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	What      string    `json:"what"` // created, deleted, or changed
	Time      time.Time `json:"time"` // of the last change
	// By are the field managers that wrote, the last writer first.
	By       []string         `json:"by,omitempty"`
	Versions int              `json:"versions,omitempty"`
	Changes  []history.Change `json:"changes,omitempty"`
	More     int              `json:"more,omitempty"` // number of changes that are omitted
}

const (
	// maxRecent bounds the objects of a state, and maxFields the fields of one of them.
	maxRecent = 200
	maxFields = 12
	// maxMinutes bounds how far back a state reaches.
	maxMinutes = 31 * 24 * 60
)

// recent streams what changed in the last minutes, the newest first. Without a history, it has the
// last write of each object, from metadata.managedFields, which every cluster records.
func (s *Server) recent(w http.ResponseWriter, r *http.Request) {
	minutes, err := strconv.Atoi(r.URL.Query().Get("minutes"))
	if err != nil || minutes < 1 || minutes > maxMinutes {
		web.Fail(w, web.Errorf(http.StatusBadRequest, "minutes: must be between 1 and %d", maxMinutes))
		return
	}
	namespace, last := r.URL.Query().Get("namespace"), time.Duration(minutes)*time.Minute
	if s.Source == "" {
		defer s.Inventory.Use()()
	}
	later := func() <-chan struct{} {
		c := make(chan struct{})
		time.AfterFunc(2*interval, func() { close(c) })
		return c
	}
	web.States(r.Context(), w, later, 0, func(context.Context) (any, error) {
		since := time.Now().Add(-last)
		if s.Source == "" {
			return recentWrites(s.Inventory.Snapshot(), namespace, since), nil
		}
		return s.source.read(s.Source, func(h *history.History) (any, error) {
			return recentVersions(h, namespace, since)
		})
	})
}

// ownManager is the manager of objects that API servers write for themselves, such as APIServices
// and default roles.
const ownManager = "kube-apiserver"

// recentState returns a state of the stream.
func recentState(all []Recent, connected, synced bool) map[string]any {
	slices.SortFunc(all, func(a, b Recent) int {
		if c := b.Time.Compare(a.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Resource+"/"+a.Namespace+"/"+a.Name, b.Resource+"/"+b.Namespace+"/"+b.Name)
	})
	total := len(all)
	return map[string]any{"changes": all[:min(total, maxRecent)], "total": total, "connected": connected,
		"synced": synced}
}

// recentWrites returns the objects that were created or written since a time.
func recentWrites(snapshot inventory.Snapshot, namespace string, since time.Time) any {
	all := []Recent{}
	for _, o := range snapshot.Objects {
		if namespace != "" && o.Namespace != namespace || o.Written.Before(since) && o.Created.Before(since) {
			continue
		}
		if o.Namespace == "" && o.Writer == ownManager { // what every server has
			continue
		}
		one := Recent{Resource: o.Resource, Namespace: o.Namespace, Name: o.Name, What: "changed", Time: o.Written}
		if o.Created.After(one.Time) {
			one.Time = o.Created
		}
		if !o.Created.Before(since) {
			one.What = "created"
		}
		if o.Deleted != nil {
			one.What = "deleting"
		}
		if o.Writer != "" {
			one.By = []string{o.Writer}
		}
		all = append(all, one)
	}
	state := recentState(all, false, snapshot.Synced)
	if old := snapshot.Old(); old.Unreachable != "" {
		state["unreachable"], state["known"] = old.Unreachable, old.Known
	}
	return state
}

// recentVersions returns the objects with versions since a time. It compares the newest ones only.
func recentVersions(h *history.History, namespace string, since time.Time) (any, error) {
	all := []Recent{}
	for _, resource := range h.Resources() {
		for _, k := range h.Keys(resource.Name()) {
			if namespace != "" && k.Namespace != namespace {
				continue
			}
			one := Recent{Resource: k.Resource, Namespace: k.Namespace, Name: k.Name, What: "changed"}
			before, after := false, false
			for v := range h.Versions(k) {
				if v.Time.Before(since) {
					before, after = !v.Deleted, !v.Deleted
					continue
				}
				one.Versions, one.Time, after = one.Versions+1, v.Time, !v.Deleted
			}
			switch {
			case one.Versions == 0 || !before && !after:
				continue
			case !before:
				one.What = "created"
			case !after:
				one.What = "deleted"
			}
			all = append(all, one)
		}
	}
	state := recentState(all, true, true)
	shown, _ := state["changes"].([]Recent)
	for i := range shown {
		if err := shown[i].compare(h, since); err != nil {
			return nil, err
		}
	}
	return state, nil
}

// compare adds the fields that changed since a time, and who wrote them.
func (c *Recent) compare(h *history.History, since time.Time) error {
	key := history.Key{Resource: c.Resource, Namespace: c.Namespace, Name: c.Name}
	_, from, _, err := h.AtTime(since).Get(key)
	if err != nil {
		return err
	}
	v, to, exists, err := h.At(h.Newest()).Get(key)
	if err != nil || !exists {
		return err
	}
	if c.By, err = managers(from, to, v.Time); err != nil || from == nil {
		return err
	}
	if c.Changes, err = history.Diff(from, to, history.DiffOptions{}); err != nil {
		return err
	}
	c.More = max(0, len(c.Changes)-maxFields)
	c.Changes = c.Changes[:len(c.Changes)-c.More]
	return nil
}

// managers returns the names of the field managers that wrote an object between two versions, the
// last writer first.
func managers(from, to []byte, at time.Time) (names []string, err error) {
	owners, err := history.Writers(from, to, at)
	for _, o := range owners {
		if name := o.Manager; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, err
}
