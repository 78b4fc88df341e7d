package trace

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"time"
)

// JSON returns a Sink that writes each record as a line of JSON:
//
//	{"id":8,"run":"5f1c09ab","time":"2026-01-02T15:04:05.123456Z","controller":"at","kind":"At","namespace":"default","name":"tea",
//	 "causes":[{"event":"update","kind":"Pod","namespace":"default","name":"tea","resourceVersion":"57","by":7}],
//	 "writes":[{"verb":"patch","subresource":"status","kind":"At","namespace":"default","name":"tea","resourceVersion":"58","changed":true}],
//	 "requeueAfter":"1m0s","duration":"1.2ms",
//	 "queue":{"waited":"80µs","ready":0,"delayed":1,"running":1},
//	 "reads":[{"verb":"get","kind":"At","namespace":"default","name":"tea","resourceVersion":"57","at":"10µs","duration":"2µs"}],
//	 "logs":[{"at":"1ms","level":"INFO","message":"started","attributes":"pod=tea"}]}
//
// "run" identifies the writer; IDs start at 1 in each run. Empty fields are omitted. "moreCauses"
// is the number of causes that were not kept, "error" is the text of an error, "at" is the time
// since the start of the reconcile. If an object is reconciled more than twenty times with the same
// outcome, JSON writes at most one such record each second: "repeats" is the number of earlier ones
// that it stands for. Durations have the format of time.ParseDuration. Errors of the
// writer are ignored, so that they don't affect the operator.
func JSON(w io.Writer) Sink {
	return JSONLines(func(_ *LineRecord, line []byte) { _, _ = w.Write(line) })
}

// JSONLines returns a Sink that passes the records of [JSON], and their lines, to f. It does not
// call f concurrently. f may keep its arguments.
func JSONLines(f func(r *LineRecord, line []byte)) Sink {
	random := make([]byte, 4)
	_, _ = rand.Read(random) // always succeeds
	run := hex.EncodeToString(random)
	folded := newFolder(func(r *LineRecord) {
		r.Run = run
		if line, err := json.Marshal(r); err == nil {
			f(r, append(line, '\n'))
		}
	})
	return Func(func(r Record) {
		record := Line(r)
		folded.add(&record)
	})
}

// LineRecord is a Record in the JSON format. Readers decode lines into it.
type LineRecord struct {
	ID uint64 `json:"id"`
	// distinguishes runs of operators, each of which numbers its records from 1
	Run          string      `json:"run,omitempty"`
	Time         time.Time   `json:"time"`
	Controller   string      `json:"controller"`
	Cluster      string      `json:"cluster,omitempty"`
	Kind         string      `json:"kind"`
	Namespace    string      `json:"namespace,omitempty"`
	Name         string      `json:"name"`
	Causes       []LineCause `json:"causes,omitempty"`
	MoreCauses   int         `json:"moreCauses,omitempty"`
	Writes       []LineWrite `json:"writes,omitempty"`
	RequeueAfter string      `json:"requeueAfter,omitempty"`
	Error        string      `json:"error,omitempty"`
	Duration     string      `json:"duration"`
	Loop         *Loop       `json:"loop,omitempty"`
	// Repeats is how many earlier reconciles of the object, with the same outcome, were not
	// recorded.
	Repeats int `json:"repeats,omitempty"`
	// the fields of Details
	Queue      *LineQueue `json:"queue,omitempty"`
	RetryAfter string     `json:"retryAfter,omitempty"`
	Reads      []LineRead `json:"reads,omitempty"`
	MoreReads  int        `json:"moreReads,omitempty"`
	Logs       []LineLog  `json:"logs,omitempty"`
	MoreLogs   int        `json:"moreLogs,omitempty"`
}

// Changed reports whether the reconcile changed an object.
func (l *LineRecord) Changed() bool {
	return slices.ContainsFunc(l.Writes, func(w LineWrite) bool { return w.Changed && w.Error == "" })
}

// LineQueue is a Queue in a LineRecord.
type LineQueue struct {
	Waited   string `json:"waited"`
	Priority int    `json:"priority,omitempty"`
	Retries  int    `json:"retries,omitempty"`
	Ready    int    `json:"ready"`
	Delayed  int    `json:"delayed"`
	Running  int    `json:"running"`
}

// LineRead is a Read in a LineRecord.
type LineRead struct {
	Verb            string `json:"verb"`
	Cluster         string `json:"cluster,omitempty"`
	Kind            string `json:"kind"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name,omitempty"`
	Selector        string `json:"selector,omitempty"`
	Live            bool   `json:"live,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Count           *int   `json:"count,omitempty"` // of a list
	At              string `json:"at"`
	Duration        string `json:"duration"`
	Error           string `json:"error,omitempty"`
}

// LineLog is a Log in a LineRecord.
type LineLog struct {
	At         string `json:"at"`
	Level      string `json:"level"`
	Message    string `json:"message"`
	Attributes string `json:"attributes,omitempty"`
}

// LineCause is a Cause in a LineRecord.
type LineCause struct {
	Event           string `json:"event"`
	Cluster         string `json:"cluster,omitempty"`
	Kind            string `json:"kind,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	By              uint64 `json:"by,omitempty"`
	Manager         string `json:"manager,omitempty"`
	Fields          string `json:"fields,omitempty"`
}

// LineWrite is a Write in a LineRecord.
type LineWrite struct {
	Verb            string `json:"verb"`
	Subresource     string `json:"subresource,omitempty"`
	Cluster         string `json:"cluster,omitempty"`
	Kind            string `json:"kind"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Changed         bool   `json:"changed"`
	Error           string `json:"error,omitempty"`
	At              string `json:"at,omitempty"` // since the start of the reconcile; with Duration
	Duration        string `json:"duration,omitempty"`
}

// Line converts a record to the JSON format.
func Line(r Record) LineRecord {
	l := LineRecord{
		ID: r.ID, Time: r.Time.UTC(), Controller: r.Controller, Kind: r.Kind, Namespace: r.Request.Namespace,
		Name:    r.Request.Name,
		Cluster: r.Request.Cluster, MoreCauses: r.Causes.More(), Error: text(r.Err), Duration: r.Duration.String(),
		Loop: r.Loop,
	}
	if r.Result.RequeueAfter > 0 {
		l.RequeueAfter = r.Result.RequeueAfter.String()
	}
	for _, c := range r.Causes.All() {
		l.Causes = append(l.Causes, LineCause{
			c.Event, c.Cluster, c.Kind, c.Key.Namespace, c.Key.Name, c.ResourceVersion, c.By, c.Manager, c.Fields,
		})
	}
	for i, w := range r.Writes {
		key := w.Key
		line := LineWrite{
			Verb: w.Verb, Subresource: w.Subresource, Cluster: w.Cluster, Kind: w.Kind, Namespace: key.Namespace,
			Name:            key.Name,
			ResourceVersion: w.ResourceVersion, Changed: w.Changed, Error: text(w.Err),
		}
		if r.Details != nil && i < len(r.Details.Writes) {
			line.At, line.Duration = r.Details.Writes[i].At.String(), r.Details.Writes[i].Duration.String()
		}
		l.Writes = append(l.Writes, line)
	}
	if r.Details != nil {
		l.setDetails(r.Details)
	}
	return l
}

func (l *LineRecord) setDetails(d *Details) {
	if q := d.Queue; q != nil {
		l.Queue = &LineQueue{q.Waited.String(), q.Priority, q.Retries, q.Ready, q.Delayed, q.Running}
	}
	if d.RetryAfter > 0 {
		l.RetryAfter = d.RetryAfter.String()
	}
	l.MoreReads, l.MoreLogs = d.MoreReads, d.MoreLogs
	for _, r := range d.Reads {
		line := LineRead{
			Verb: r.Verb, Cluster: r.Cluster, Kind: r.Kind, Namespace: r.Key.Namespace, Name: r.Key.Name,
			Selector: r.Selector, Live: r.Live,
			ResourceVersion: r.ResourceVersion, At: r.At.String(), Duration: r.Duration.String(), Error: text(r.Err),
		}
		if r.Verb == "list" && r.Err == nil {
			line.Count = &r.Count
		}
		l.Reads = append(l.Reads, line)
	}
	for _, e := range d.Logs {
		l.Logs = append(l.Logs, LineLog{e.At.String(), e.Level.String(), e.Message, e.Attributes})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
