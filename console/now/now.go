// Package now serves the view Now: the objects that are not ready, and the reasons.
package now

import (
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
	"kelson.dev/lab/diagnosis"
	"kelson.dev/operator/client"
	"kelson.dev/operator/trace"
)

// Server serves the requests of the view.
type Server struct {
	Inventory *inventory.Inventory
	Traces    *traces.Traces
	// Logs returns the end of a container's log, as [diagnosis.Cluster].Logs does; nil: the view
	// shows no lines of logs.
	Logs func(ctx context.Context, pod client.Key, container string, previous bool) ([]string, error)

	lines *lastLines
}

// Routes registers the handlers.
func (s *Server) Routes(mux *http.ServeMux) {
	s.lines = newLastLines(s.Logs)
	mux.HandleFunc("GET /api/now", s.now)
}

// pace is the minimum time between two states of a stream.
const pace = 250 * time.Millisecond

func (s *Server) now(w http.ResponseWriter, r *http.Request) {
	defer s.Inventory.Use()()
	namespace := r.URL.Query().Get("namespace")
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	changed := either(ctx, s.Inventory.Changed, either(ctx, s.Traces.Changed, s.lines.Changed))
	web.States(ctx, w, changed, pace, func(ctx context.Context) (any, error) {
		state := find(s.Inventory.Snapshot(), s.Traces, namespace, time.Now())
		s.lines.fill(ctx, state.Items)
		return state, nil
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
	// Items are the first ones of Total objects. Bad of these have errors.
	Items []Item `json:"items"`
	Total int    `json:"total"`
	Bad   int    `json:"bad"`
	Wakes []Wake `json:"wakes,omitempty"`
	// Objects is the number of objects that were examined.
	Objects int  `json:"objects"`
	Synced  bool `json:"synced"`
	// Failures are resources that can't be listed, and traces that can't be read.
	Failures []inventory.Failure `json:"failures,omitempty"`
	inventory.Old
	Traced bool `json:"traced"` // the console has traces
}

// Item is an object that is not ready, or owns others that are not: the problems of these are
// among its own.
type Item struct {
	causes.Object
	Resource string    `json:"resource,omitempty"`
	Problems []Problem `json:"problems"`
	// More is how many further items with the same problems are omitted.
	More int `json:"more,omitempty"`
}

// Problem describes an error of an object, or a condition for which it waits.
type Problem struct {
	Tone string    `json:"tone"` // "bad" or "wait"
	What string    `json:"what"` // a few words
	Text string    `json:"text,omitempty"`
	Log  string    `json:"log,omitempty"` // the last line of a container that crashed
	Time time.Time `json:"time,omitzero"` // since when
	Run  string    `json:"run,omitempty"` // with ID: identifies the reconcile
	ID   uint64    `json:"id,omitempty"`
	// Objects is how many objects that the item owns have the problem, of which Object is one; 0 if
	// the problem is that of the item itself.
	Objects int            `json:"objects,omitempty"`
	Object  *causes.Object `json:"object,omitempty"`

	run     *run   // whose log may have the cause
	reason  string // of a condition
	event   bool   // from an Event
	message string // of the Event
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

func find(snapshot inventory.Snapshot, t *traces.Traces, namespace string, now time.Time) State {
	state := State{Items: []Item{}, Synced: snapshot.Synced, Traced: t.Sources() > 0, Objects: len(snapshot.Objects)}
	problems := map[causes.Object][]Problem{}
	add := func(o causes.Object, p Problem) {
		if namespace == "" || o.Namespace == namespace {
			problems[o] = append(problems[o], p)
		}
	}
	objects := map[causes.Object]*inventory.Object{}
	all := index{objects, map[string]*inventory.Object{}}
	for _, o := range snapshot.Objects {
		name := nameOf(o)
		objects[name], all.byUID[o.UID] = o, o
		for _, p := range ofObject(o, now) {
			add(name, p)
		}
	}
	for _, e := range snapshot.Events {
		o := causes.Object{Kind: e.Kind, Namespace: e.Namespace, Name: e.Name}
		if e.Type == "Warning" && now.Sub(e.Time) < recentEvent && objects[o] != nil &&
			e.Reason != diagnosis.UnexpectedJob {
			if len(problems[o]) < 4 {
				add(o, Problem{Tone: "bad", What: e.Reason, Text: times(e.Message, e.Count), Time: e.Time, event: true,
					message: e.Message})
			}
		}
	}
	state.Wakes = ofTraces(t, now, namespace, func(o causes.Object) bool {
		return objects[o] != nil || !snapshot.Synced || o.Cluster != ""
	}, add)
	items := all.fold(problems)
	order(items)
	state.Total = len(items)
	for _, item := range items {
		if item.bad() {
			state.Bad++
		}
	}
	state.Items = all.bound(items)
	state.Failures = snapshot.Failures
	state.Old = snapshot.Old()
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
func ofTraces(t *traces.Traces, now time.Time, namespace string, exists func(causes.Object) bool,
	add func(causes.Object, Problem)) []Wake {
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
			add(k.object, Problem{Tone: "bad", What: "hot loop", Text: r.Loop.String(), Time: r.Time, Run: r.Run,
				ID: r.ID})
		}
	}
	var wakes []Wake
	for _, k := range order {
		r := latest[k]
		if r.Error != "" && exists(k.object) {
			add(k.object, Problem{
				Tone: "bad", What: "controller " + r.Controller + " fails", Text: times(r.Error, failures[k]),
				Time: since[k], Run: r.Run, ID: r.ID,
			})
		}
		delay := r.RequeueAfter
		if r.RetryAfter != "" {
			delay = r.RetryAfter
		}
		after, err := time.ParseDuration(delay)
		spent, _ := time.ParseDuration(r.Duration)
		if at := r.Time.Add(spent + after); err == nil && at.After(now) &&
			(namespace == "" || namespace == k.object.Namespace) {
			wakes = append(wakes, Wake{k.object, r.Controller, at, r.RetryAfter != "", r.Run, r.ID})
		}
	}
	slices.SortFunc(wakes, func(a, b Wake) int { return a.At.Compare(b.At) })
	return wakes[:min(len(wakes), maxWakes)]
}
