package reconcile

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"kelson.dev/console/internal/traces"
	"kelson.dev/lab/causes"
	"kelson.dev/operator/trace"
)

// Step is a read, a write or a log record of a reconcile.
type Step struct {
	// At is the time from the start of the reconcile, in microseconds; nil if the trace has none.
	At *float64 `json:"at,omitempty"`
	// Took is the duration of a call, in microseconds.
	Took  *float64        `json:"took,omitempty"`
	Read  *trace.LineRead `json:"read,omitempty"`
	Write *causes.Effect  `json:"write,omitempty"`
	Log   *trace.LineLog  `json:"log,omitempty"`
	Stale *Stale          `json:"stale,omitempty"` // of a read
}

// Stale means that a newer state existed than the one that was read.
type Stale struct {
	// Object and Version are the newer state. Version is empty if only a conflict shows that there
	// was one.
	Object  causes.Object `json:"object"`
	Version string        `json:"version,omitempty"`
	// Run, ID and Controller are the reconcile that wrote the state or, if Seen is true, that an
	// event about it had caused.
	Run        string `json:"run,omitempty"`
	ID         uint64 `json:"id,omitempty"`
	Controller string `json:"controller,omitempty"`
	Seen       bool   `json:"seen,omitempty"`
	// Conflict means that the reconcile's write failed because the object had been modified.
	Conflict bool `json:"conflict,omitempty"`
}

// steps returns the reads, writes and log records of a reconcile, in order.
func steps(t *traces.Traces, r *trace.LineRecord) []Step {
	var all []Step
	for i := range r.Reads {
		read := &r.Reads[i]
		all = append(all, Step{At: micros(read.At), Took: micros(read.Duration), Read: read})
	}
	for _, effect := range t.Effects(r) {
		all = append(all, Step{At: micros(effect.Write.At), Took: micros(effect.Write.Duration), Write: &effect})
	}
	for i := range r.Logs {
		all = append(all, Step{At: micros(r.Logs[i].At), Log: &r.Logs[i]})
	}
	slices.SortStableFunc(all, func(a, b Step) int {
		if a.At == nil || b.At == nil {
			return 0 // the trace comes from an older library, which records no times
		}
		return cmp.Compare(*a.At, *b.At)
	})
	markStale(t.Records(), r, all)
	return all
}

func micros(text string) *float64 {
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil
	}
	us := float64(d) / float64(time.Microsecond)
	return &us
}

// after returns the time of a duration after the start of a record.
func after(r *trace.LineRecord, durations ...string) time.Time {
	t := r.Time
	for _, text := range durations {
		d, _ := time.ParseDuration(text)
		t = t.Add(d)
	}
	return t
}

// markStale marks the reads that returned a state although a newer one existed: a state that an
// operator of the traces had written, or whose event had caused a reconcile, before the read began.
// A conflict of a later write marks the last read of its object too.
func markStale(records []*trace.LineRecord, record *trace.LineRecord, all []Step) {
	var reads []*Step
	for i := range all {
		if s := &all[i]; s.Read != nil && s.Read.Error == "" && s.Read.ResourceVersion != "" && s.At != nil {
			reads = append(reads, s)
		}
	}
	if len(reads) == 0 {
		return
	}
	for _, r := range records {
		for i := range r.Writes {
			w := &r.Writes[i]
			if w.Changed && w.Error == "" && w.ResourceVersion != "" {
				newer := Stale{Object: causes.Written(w), Version: w.ResourceVersion, Run: r.Run, ID: r.ID,
					Controller: r.Controller}
				mark(reads, record, newer, written(r, w))
			}
		}
		for i := range r.Causes {
			if c := &r.Causes[i]; c.Kind != "" && c.ResourceVersion != "" && c.Event != trace.Delete && r != record {
				newer := Stale{Object: causes.Caused(c), Version: c.ResourceVersion, Run: r.Run, ID: r.ID,
					Controller: r.Controller, Seen: true}
				mark(reads, record, newer, r.Time)
			}
		}
	}
	for i := range all {
		if w := all[i].Write; w != nil && strings.Contains(w.Write.Error, "the object has been modified") {
			for k := i - 1; k >= 0; k-- {
				if s := &all[k]; s.Read != nil && s.Read.Verb == "get" && object(s.Read) == causes.Written(&w.Write) {
					if s.Stale == nil {
						s.Stale = &Stale{Object: object(s.Read)}
					}
					s.Stale.Conflict = true
					break
				}
			}
		}
	}
}

// written returns the time at which a write had certainly been executed.
func written(r *trace.LineRecord, w *trace.LineWrite) time.Time {
	if w.At == "" {
		return after(r, r.Duration)
	}
	return after(r, w.At, w.Duration)
}

// mark marks the reads that returned a state older than one which existed at a time. If several
// such states exist, it records the newest. The version of a list may be older than the operator's
// own writes that it contains, so mark ignores these for lists.
func mark(reads []*Step, record *trace.LineRecord, newer Stale, existed time.Time) {
	for _, s := range reads {
		read := s.Read
		switch {
		case read.Kind != newer.Object.Kind || read.Cluster != newer.Object.Cluster:
			continue
		case read.Verb == "get" && object(read) != newer.Object:
			continue
		case read.Verb == "list" && (read.Namespace != "" && read.Namespace != newer.Object.Namespace ||
			newer.Run == record.Run):
			continue
		case !existed.Before(after(record, read.At)) || !isNewer(newer.Version, read.ResourceVersion):
			continue
		}
		if s.Stale == nil || isNewer(newer.Version, s.Stale.Version) ||
			newer.Version == s.Stale.Version && s.Stale.Seen {
			s.Stale = &newer
		}
	}
}

func object(r *trace.LineRead) causes.Object {
	return causes.Object{Cluster: r.Cluster, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

// isNewer reports whether version a is newer than b; false if they can't be compared.
func isNewer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
