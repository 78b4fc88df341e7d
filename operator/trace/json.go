package trace

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"time"
)

// JSON returns a Sink that writes each record as a line of JSON:
//
//	{"id":8,"run":"5f1c09ab","time":"2026-01-02T15:04:05.123456Z","controller":"at","kind":"At","namespace":"default","name":"tea",
//	 "causes":[{"event":"update","kind":"Pod","namespace":"default","name":"tea","resourceVersion":"57","by":7}],
//	 "writes":[{"verb":"patch","subresource":"status","kind":"At","namespace":"default","name":"tea","resourceVersion":"58","changed":true}],
//	 "requeueAfter":"1m0s","duration":"1.2ms"}
//
// "run" identifies the writer; IDs start at 1 in each run. Empty fields are omitted. "moreCauses"
// is the number of causes that were not kept, "error" is the text of an error. Durations have the
// format of time.ParseDuration. Errors of the writer are ignored, so that they don't affect the
// operator.
func JSON(w io.Writer) Sink {
	random := make([]byte, 4)
	_, _ = rand.Read(random) // always succeeds
	run := hex.EncodeToString(random)
	return Func(func(r Record) {
		record := Line(r)
		record.Run = run
		line, err := json.Marshal(record)
		if err != nil {
			return
		}
		_, _ = w.Write(append(line, '\n'))
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
}

// Line converts a record to the JSON format.
func Line(r Record) LineRecord {
	l := LineRecord{
		ID: r.ID, Time: r.Time.UTC(), Controller: r.Controller, Kind: r.Kind, Namespace: r.Request.Namespace, Name: r.Request.Name,
		Cluster: r.Request.Cluster, MoreCauses: r.Causes.More(), Error: text(r.Err), Duration: r.Duration.String(), Loop: r.Loop,
	}
	if r.Result.RequeueAfter > 0 {
		l.RequeueAfter = r.Result.RequeueAfter.String()
	}
	for _, c := range r.Causes.All() {
		l.Causes = append(l.Causes, LineCause{
			c.Event, c.Cluster, c.Kind, c.Key.Namespace, c.Key.Name, c.ResourceVersion, c.By, c.Manager, c.Fields,
		})
	}
	for _, w := range r.Writes {
		key := w.Key
		l.Writes = append(l.Writes, LineWrite{
			w.Verb, w.Subresource, w.Cluster, w.Kind, key.Namespace, key.Name, w.ResourceVersion, w.Changed, text(w.Err),
		})
	}
	return l
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
