// Package now serves the view Now: the objects that are not ready, and the reasons.
package now

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"kelson.dev/console/internal/inventory"
	"kelson.dev/console/internal/traces"
	"kelson.dev/console/internal/web"
	"kelson.dev/lab/causes"
	"kelson.dev/operator/trace"
)

// Server serves the requests of the view.
type Server struct {
	Inventory *inventory.Inventory
	Traces    *traces.Traces
}

// Routes registers the handlers.
func (s *Server) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/now", s.now)
}

// pace is the minimum time between two states of a stream.
const pace = 250 * time.Millisecond

func (s *Server) now(w http.ResponseWriter, r *http.Request) {
	defer s.Inventory.Use()()
	namespace := r.URL.Query().Get("namespace")
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	web.States(ctx, w, either(ctx, s.Inventory.Changed, s.Traces.Changed), pace, func(context.Context) (any, error) {
		return find(s.Inventory.Snapshot(), s.Traces, namespace, time.Now()), nil
	})
}

// recheck is the interval at which the state is computed even without a change, because it depends
// on the time.
const recheck = 5 * time.Second

// either returns a function that returns a channel. The channel is closed when a channel of a or b
// is closed, or after recheck.
func either(ctx context.Context, a, b func() <-chan struct{}) func() <-chan struct{} {
	return func() <-chan struct{} {
		first, second, both := a(), b(), make(chan struct{})
		go func() {
			defer close(both)
			timer := time.NewTimer(recheck)
			defer timer.Stop()
			select {
			case <-first:
			case <-second:
			case <-timer.C:
			case <-ctx.Done():
			}
		}()
		return both
	}
}

// State is the content of the page.
type State struct {
	// Items are the first maxItems of Total objects. Bad of these have errors.
	Items []Item `json:"items"`
	Total int    `json:"total"`
	Bad   int    `json:"bad"`
	Wakes []Wake `json:"wakes,omitempty"`
	// Objects is the number of objects that were examined.
	Objects int  `json:"objects"`
	Synced  bool `json:"synced"`
	// Failures are resources that can't be listed, and traces that can't be read.
	Failures []inventory.Failure `json:"failures,omitempty"`
	// Unreachable is the reason if no resource can be listed, unless the user lacks the right. The
	// items are those of an earlier time.
	Unreachable string `json:"unreachable,omitempty"`
	Traced      bool   `json:"traced"` // the console has traces
}

// Item is an object that is not ready.
type Item struct {
	causes.Object
	Resource string    `json:"resource,omitempty"`
	Depth    int       `json:"depth,omitempty"` // depth below another item, by ownership
	Problems []Problem `json:"problems"`
}

// Problem describes an error of an object, or a condition for which it waits.
type Problem struct {
	Tone string    `json:"tone"` // "bad" or "wait"
	What string    `json:"what"` // a few words
	Text string    `json:"text,omitempty"`
	Time time.Time `json:"time,omitzero"` // since when
	Run  string    `json:"run,omitempty"` // with ID: identifies the reconcile
	ID   uint64    `json:"id,omitempty"`
}

// Wake is a reconcile that an operator has scheduled.
type Wake struct {
	causes.Object
	Controller string    `json:"controller"`
	At         time.Time `json:"at"`
	Retry      bool      `json:"retry,omitempty"` // after the backoff of an error
	Run        string    `json:"run"`
	ID         uint64    `json:"id"`
}

// Times after which the view shows states that are normally short.
const (
	deletionTime = 3 * time.Second
	observeTime  = 3 * time.Second
	recentEvent  = 5 * time.Minute
	recentLoop   = time.Minute
)

// Bounds of a state, because browsers need seconds to show tens of thousands of objects.
const (
	maxItems = 500
	maxWakes = 20
)

func find(snapshot inventory.Snapshot, t *traces.Traces, namespace string, now time.Time) State {
	state := State{Items: []Item{}, Synced: snapshot.Synced, Traced: t.Sources() > 0, Objects: len(snapshot.Objects)}
	problems := map[causes.Object][]Problem{}
	add := func(o causes.Object, p Problem) {
		if namespace == "" || o.Namespace == namespace {
			problems[o] = append(problems[o], p)
		}
	}
	objects := map[causes.Object]*inventory.Object{}
	byUID := map[string]*inventory.Object{}
	for _, o := range snapshot.Objects {
		name := causes.Object{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
		objects[name], byUID[o.UID] = o, o
		for _, p := range ofObject(o, now) {
			add(name, p)
		}
	}
	for _, e := range snapshot.Events {
		o := causes.Object{Kind: e.Kind, Namespace: e.Namespace, Name: e.Name}
		if e.Type == "Warning" && now.Sub(e.Time) < recentEvent && objects[o] != nil {
			if len(problems[o]) < 4 {
				add(o, Problem{Tone: "bad", What: e.Reason, Text: times(e.Message, e.Count), Time: e.Time})
			}
		}
	}
	state.Wakes = ofTraces(t, now, namespace, func(o causes.Object) bool {
		return objects[o] != nil || !snapshot.Synced || o.Cluster != ""
	}, add)
	for o, list := range problems {
		item := Item{Object: o, Problems: list}
		if known := objects[o]; known != nil {
			item.Resource = known.Resource
		}
		state.Items = append(state.Items, item)
	}
	order(state.Items, objects, byUID)
	state.Total = len(state.Items)
	for _, item := range state.Items {
		if slices.ContainsFunc(item.Problems, func(p Problem) bool { return p.Tone == "bad" }) {
			state.Bad++
		}
	}
	state.Items = state.Items[:min(len(state.Items), maxItems)]
	state.Failures = snapshot.Failures
	if snapshot.Unreachable {
		state.Unreachable = snapshot.Failures[0].Why
	}
	for place, why := range t.Errors() {
		state.Failures = append(state.Failures, inventory.Failure{What: "trace " + place, Why: why})
	}
	slices.SortFunc(state.Failures, func(a, b inventory.Failure) int { return strings.Compare(a.What, b.What) })
	return state
}

func times(message string, count int) string {
	if count > 1 {
		return fmt.Sprintf("%s (%d times)", message, count)
	}
	return message
}

// ofTraces adds failed reconciles and hot loops, and returns the next scheduled reconciles.
func ofTraces(t *traces.Traces, now time.Time, namespace string, exists func(causes.Object) bool, add func(causes.Object, Problem)) []Wake {
	type key struct {
		controller string
		object     causes.Object
	}
	latest := map[key]*trace.LineRecord{}
	failures := map[key]int{} // consecutive failures
	since := map[key]time.Time{}
	var order []key
	for _, r := range t.Records() {
		k := key{r.Controller, causes.Reconciled(r)}
		if latest[k] == nil {
			order = append(order, k)
		}
		latest[k] = r
		if r.Error == "" {
			failures[k] = 0
		} else {
			if failures[k] == 0 {
				since[k] = r.Time
			}
			failures[k] += 1 + r.Repeats
		}
		if r.Loop != nil && now.Sub(r.Time) < recentLoop {
			add(k.object, Problem{Tone: "bad", What: "hot loop", Text: r.Loop.String(), Time: r.Time, Run: r.Run, ID: r.ID})
		}
	}
	var wakes []Wake
	for _, k := range order {
		r := latest[k]
		if r.Error != "" && exists(k.object) {
			add(k.object, Problem{
				Tone: "bad", What: "controller " + r.Controller + " fails", Text: times(r.Error, failures[k]), Time: since[k], Run: r.Run, ID: r.ID,
			})
		}
		delay := r.RequeueAfter
		if r.RetryAfter != "" {
			delay = r.RetryAfter
		}
		after, err := time.ParseDuration(delay)
		spent, _ := time.ParseDuration(r.Duration)
		if at := r.Time.Add(spent + after); err == nil && at.After(now) && (namespace == "" || namespace == k.object.Namespace) {
			wakes = append(wakes, Wake{k.object, r.Controller, at, r.RetryAfter != "", r.Run, r.ID})
		}
	}
	slices.SortFunc(wakes, func(a, b Wake) int { return a.At.Compare(b.At) })
	return wakes[:min(len(wakes), maxWakes)]
}

// order sorts items so that an object follows its owner.
func order(items []Item, objects map[causes.Object]*inventory.Object, byUID map[string]*inventory.Object) {
	name := func(o *inventory.Object) causes.Object {
		return causes.Object{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
	}
	listed := map[causes.Object]bool{}
	for _, item := range items {
		listed[item.Object] = true
	}
	paths := map[causes.Object]string{}
	for i := range items {
		path, depth := items[i].String(), 0
		o := objects[items[i].Object]
		for hops := 0; o != nil && hops < 8; hops++ {
			var owner *inventory.Object
			for _, ref := range o.Owners {
				if ref.Controller || owner == nil {
					if found := byUID[ref.UID]; found != nil {
						owner = found
					}
				}
			}
			if o = owner; o != nil {
				path = name(o).String() + "\x00" + path
				if listed[name(o)] {
					depth++
				}
			}
		}
		paths[items[i].Object], items[i].Depth = path, depth
	}
	slices.SortFunc(items, func(a, b Item) int { return cmp.Compare(paths[a.Object], paths[b.Object]) })
}
