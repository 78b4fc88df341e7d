// Package timeline serves the view Timeline: the times of reconciles, writes, Events and restarts
// of operators; or the steps of a failure.
package timeline

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
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
	Traces    *traces.Traces
	Inventory *inventory.Inventory // for Events
	// Failure is a file of kelson explore, whose runs can be shown instead; empty: none.
	Failure string
}

// Routes registers the handlers.
func (s *Server) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/timeline", s.timeline)
}

// Marks is an event of the stream: marks that were added. The fields of mark i are at index i of
// each list, so that even fifty thousand marks are small and fast to decode.
type Marks struct {
	// Lanes are new lanes; they continue the numbers of those sent before.
	Lanes []Lane `json:"lanes,omitempty"`
	// Lane has the numbers of the marks' lanes.
	Lane []int `json:"lane"`
	// Start and Length are in microseconds. Start counts from Origin; Length is 0 for a write.
	Start  []int64   `json:"start"`
	Length []int64   `json:"length"`
	Origin time.Time `json:"origin"`
	// Type is one of the constants below.
	Type []int `json:"type"`
	// ID identifies a mark: run/number for a reconcile, event/UID for an Event, or step/number.
	// Marks of the last two kinds have a text, by index.
	ID   []string       `json:"id"`
	Text map[int]string `json:"text,omitempty"`
	// Lines are marks of all lanes.
	Lines []Line `json:"lines,omitempty"`
	// Steps means that the marks are the steps of a run of a failure, and that Start counts a
	// millisecond per step.
	Steps bool `json:"steps,omitempty"`
	// Times are the times of the steps, in seconds since the first; empty if unknown.
	Times []float64 `json:"times,omitempty"`
	// Complete is true in the event that ends the marks which were recorded before the stream
	// began.
	Complete bool `json:"complete"`
	Traced   bool `json:"traced"`
	// Skipped is the number of older records that the console has removed.
	Skipped int    `json:"skipped,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Types of marks.
const (
	Succeeded = iota // a reconcile
	Failed           // a reconcile that returned an error
	Looping          // a reconcile that was found to be part of a hot loop
	Write            // a write that changed an object
	Refused          // a write that failed
	Event            // a Kubernetes Event, or an event that an operator received
	Warning          // a Kubernetes Event that warns
	Request          // a request of a run of a failure
)

// Line is a mark of all lanes.
type Line struct {
	Start int64  `json:"start"` // as Marks.Start
	Type  string `json:"type"`  // restart, fault, alarm or input
	Text  string `json:"text"`
}

// Lane is an object.
type Lane struct {
	causes.Object
	Controller string `json:"controller,omitempty"` // the first one that reconciled the object
}

const (
	pace = 250 * time.Millisecond
	// batch is the number of records of an event; the first is shown while the others are sent.
	batch = 10_000
)

func (s *Server) timeline(w http.ResponseWriter, r *http.Request) {
	if run := r.URL.Query().Get("run"); run != "" {
		web.Func(func(*http.Request) (any, error) { return s.steps(run) }).ServeHTTP(w, r)
		return
	}
	defer s.Inventory.Use()()
	stream := web.NewStream(w)
	t := &lanes{numbers: map[causes.Object]int{}, sent: map[*trace.LineRecord]bool{}, events: map[string]time.Time{},
		runs: map[string]bool{}, controllers: map[string]bool{}, traced: s.Traces.Sources() > 0}
	alive := time.NewTicker(15 * time.Second)
	defer alive.Stop()
	problem := ""
	for first := true; ; first = false {
		changed := s.Traces.Changed()
		eventsChanged := s.Inventory.Changed()
		records := s.Traces.Records()
		skipped := s.Traces.Removed()
		added := t.fresh(records)
		for sent := 0; ; {
			n := min(batch, len(added)-sent)
			m := t.marks(added[sent : sent+n])
			sent += n
			m.Complete, m.Skipped = sent == len(added), skipped
			if m.Complete {
				all, failure := s.Inventory.Events()
				t.addEvents(&m, all)
				if failure != "" {
					m.Error = "Events: " + failure
				}
			}
			for place, why := range s.Traces.Errors() {
				m.Error = place + ": " + why
			}
			if (first || len(m.Start) > 0 || m.Error != problem) && stream.Send("marks", m) != nil {
				return
			}
			problem = m.Error
			if m.Complete {
				break
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(pace):
		}
		for waiting := true; waiting; {
			select {
			case <-r.Context().Done():
				return
			case <-changed:
				waiting = false
			case <-eventsChanged:
				waiting = false
			case <-alive.C:
				if stream.Ping() != nil {
					return
				}
			}
		}
	}
}

// lanes records what one stream has sent.
type lanes struct {
	numbers map[causes.Object]int
	sent    map[*trace.LineRecord]bool
	origin  time.Time
	traced  bool
	// events has the last times of the Events that were sent, by UID.
	events map[string]time.Time
	// runs and controllers are the runs and controllers of the records that were sent.
	runs, controllers map[string]bool
}

// fresh returns the records that were not sent yet, and marks them as sent.
func (t *lanes) fresh(records []*trace.LineRecord) []*trace.LineRecord {
	var added []*trace.LineRecord
	for _, r := range records {
		if !t.sent[r] {
			t.sent[r] = true
			added = append(added, r)
		}
	}
	if len(t.sent) > 2*len(records) { // forget those that the console has removed
		t.sent = map[*trace.LineRecord]bool{}
		for _, r := range records {
			t.sent[r] = true
		}
	}
	return added
}

func (t *lanes) marks(records []*trace.LineRecord) Marks {
	if t.origin.IsZero() && len(records) > 0 {
		t.origin = records[0].Time
	}
	m := t.empty()
	for _, r := range records {
		id := r.Run + "/" + strconv.FormatUint(r.ID, 10)
		took, err := time.ParseDuration(r.Duration)
		if err != nil {
			took = 0
		}
		t.started(&m, r)
		kind := Succeeded
		switch {
		case r.Error != "":
			kind = Failed
		case r.Loop != nil:
			kind = Looping
		}
		m.add(t.lane(&m, causes.Reconciled(r), r.Controller), r.Time.Sub(t.origin), max(took, time.Microsecond), kind,
			id)
		for i := range r.Writes {
			w := &r.Writes[i]
			if w.Error == "" && !w.Changed {
				continue
			}
			kind := Write
			if w.Error != "" {
				kind = Refused
			}
			m.add(t.lane(&m, causes.Written(w), ""), r.Time.Add(answered(w, took)).Sub(t.origin), 0, kind, id)
		}
	}
	return m
}

// answered returns the time from the start of a reconcile to the response to one of its writes. For
// traces without details, it returns the duration of the reconcile.
func answered(w *trace.LineWrite, took time.Duration) time.Duration {
	at, err := time.ParseDuration(w.At)
	if err != nil {
		return took
	}
	d, _ := time.ParseDuration(w.Duration)
	return at + d
}

func (t *lanes) empty() Marks {
	return Marks{Origin: t.origin, Traced: t.traced, Lane: []int{}, Start: []int64{}, Length: []int64{}, Type: []int{},
		ID: []string{}}
}

// lane returns the number of an object's lane, and adds new ones.
func (t *lanes) lane(m *Marks, o causes.Object, controller string) int {
	n, ok := t.numbers[o]
	if !ok {
		n = len(t.numbers)
		t.numbers[o] = n
		m.Lanes = append(m.Lanes, Lane{o, controller})
	}
	return n
}

// add adds a mark. start is the time since the origin.
func (m *Marks) add(lane int, start, length time.Duration, kind int, id string) {
	m.Lane = append(m.Lane, lane)
	m.Start = append(m.Start, start.Microseconds())
	m.Length = append(m.Length, length.Microseconds())
	m.Type = append(m.Type, kind)
	m.ID = append(m.ID, id)
}

// say adds a text to the last mark.
func (m *Marks) say(text string) {
	if m.Text == nil {
		m.Text = map[int]string{}
	}
	m.Text[len(m.Start)-1] = text
}

// started adds a line if a record is the first one of a run and an earlier run had the same
// controller: the operator has restarted, or another replica has taken over.
func (t *lanes) started(m *Marks, r *trace.LineRecord) {
	if !t.runs[r.Run] && t.controllers[r.Controller] {
		m.Lines = append(m.Lines, Line{r.Time.Sub(t.origin).Microseconds(), "restart",
			"a new run of the operator: controller " + r.Controller + ", run " + r.Run})
	}
	t.runs[r.Run], t.controllers[r.Controller] = true, true
}

// addEvents adds the Events that are new or have happened again.
func (t *lanes) addEvents(m *Marks, all []inventory.Event) {
	all = slices.DeleteFunc(all, func(e inventory.Event) bool { return t.events[e.UID].Equal(e.Time) || e.Name == "" })
	slices.SortFunc(all, func(a, b inventory.Event) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.UID, b.UID))
	})
	if t.origin.IsZero() && len(all) > 0 {
		t.origin = all[0].Time
		m.Origin = t.origin
	}
	for _, e := range all {
		t.events[e.UID] = e.Time
		kind := Event
		if e.Type == "Warning" {
			kind = Warning
		}
		m.add(t.lane(m, causes.Object{Kind: e.Kind, Namespace: e.Namespace, Name: e.Name}, ""), e.Time.Sub(t.origin), 0,
			kind, "event/"+e.UID+"/"+strconv.FormatInt(e.Time.UnixMilli(), 36))
		text := e.Reason + ": " + e.Message
		if e.Count > 1 {
			text += fmt.Sprintf(" (%d times)", e.Count)
		}
		m.say(text)
	}
}
