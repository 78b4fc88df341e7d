// Package timeline serves the view Timeline: when which reconcile ran, and which object was
// written.
package timeline

import (
	"net/http"
	"strconv"
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
	mux.HandleFunc("GET /api/timeline", s.timeline)
}

// Marks is an event of the stream: marks that were added. The fields of mark i are at index i of
// each list, so that fifty thousand marks are small and fast to decode.
type Marks struct {
	// Lanes are new lanes; they continue the numbers of those sent before.
	Lanes []Lane `json:"lanes,omitempty"`
	// Lane is the number of a mark's lane.
	Lane []int `json:"lane"`
	// Start and Length are in microseconds. Start counts from Origin; Length is 0 for a write.
	Start  []int64   `json:"start"`
	Length []int64   `json:"length"`
	Origin time.Time `json:"origin"`
	// Type is one of the constants below.
	Type []int `json:"type"`
	// ID is the reconcile of a mark: run/number.
	ID []string `json:"id"`
	// Complete is true in the last event of those that were recorded when the stream began.
	Complete bool   `json:"complete"`
	Traced   bool   `json:"traced"`
	Skipped  int    `json:"skipped,omitempty"` // older records that are not sent
	Error    string `json:"error,omitempty"`
}

// Types of marks.
const (
	Succeeded = iota // a reconcile
	Failed           // a reconcile that returned an error
	Looping          // a reconcile that was found to be part of a hot loop
	Write            // a write that changed an object
	Refused          // a write that failed
)

// Lane is an object.
type Lane struct {
	causes.Object
	Controller string `json:"controller,omitempty"` // the first that reconciled it
}

const (
	pace = 250 * time.Millisecond
	// maxRecords bounds the records of a stream; older ones are left out.
	maxRecords = 100_000
	// batch is the number of records of an event; the first is shown while the others are sent.
	batch = 10_000
)

func (s *Server) timeline(w http.ResponseWriter, r *http.Request) {
	stream := web.NewStream(w)
	t := &lanes{numbers: map[causes.Object]int{}, sent: map[*trace.LineRecord]bool{}, traced: s.Traces.Sources() > 0}
	alive := time.NewTicker(15 * time.Second)
	defer alive.Stop()
	for first := true; ; first = false {
		changed := s.Traces.Changed()
		records := s.Traces.Records()
		skipped := max(0, len(records)-maxRecords)
		added := t.fresh(records[skipped:])
		for sent := 0; sent < len(added) || first; {
			n := min(batch, len(added)-sent)
			m := t.marks(added[sent : sent+n])
			sent += n
			m.Complete, m.Skipped = sent == len(added), skipped
			for place, why := range s.Traces.Errors() {
				m.Error = place + ": " + why
			}
			if stream.Send("marks", m) != nil {
				return
			}
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
			case <-alive.C:
				if stream.Ping() != nil {
					return
				}
			}
		}
	}
}

// lanes is what one stream has sent.
type lanes struct {
	numbers map[causes.Object]int
	sent    map[*trace.LineRecord]bool
	origin  time.Time
	traced  bool
}

// fresh returns the records that were not sent, and notes that they are.
func (t *lanes) fresh(records []*trace.LineRecord) []*trace.LineRecord {
	var added []*trace.LineRecord
	for _, r := range records {
		if !t.sent[r] {
			t.sent[r] = true
			added = append(added, r)
		}
	}
	return added
}

func (t *lanes) marks(records []*trace.LineRecord) Marks {
	if t.origin.IsZero() && len(records) > 0 {
		t.origin = records[0].Time
	}
	m := Marks{Origin: t.origin, Traced: t.traced, Lane: []int{}, Start: []int64{}, Length: []int64{}, Type: []int{}, ID: []string{}}
	lane := func(o causes.Object, controller string) int {
		n, ok := t.numbers[o]
		if !ok {
			n = len(t.numbers)
			t.numbers[o] = n
			m.Lanes = append(m.Lanes, Lane{o, controller})
		}
		return n
	}
	add := func(lane int, at time.Time, length time.Duration, kind int, id string) {
		m.Lane = append(m.Lane, lane)
		m.Start = append(m.Start, at.Sub(t.origin).Microseconds())
		m.Length = append(m.Length, length.Microseconds())
		m.Type = append(m.Type, kind)
		m.ID = append(m.ID, id)
	}
	for _, r := range records {
		id := r.Run + "/" + strconv.FormatUint(r.ID, 10)
		took, err := time.ParseDuration(r.Duration)
		if err != nil {
			took = 0
		}
		kind := Succeeded
		switch {
		case r.Error != "":
			kind = Failed
		case r.Loop != nil:
			kind = Looping
		}
		add(lane(causes.Reconciled(r), r.Controller), r.Time, max(took, time.Microsecond), kind, id)
		for i := range r.Writes {
			w := &r.Writes[i]
			switch {
			case w.Error != "":
				add(lane(causes.Written(w), ""), r.Time.Add(took), 0, Refused, id)
			case w.Changed:
				add(lane(causes.Written(w), ""), r.Time.Add(took), 0, Write, id)
			}
		}
	}
	return m
}
