package trace

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/boundedmap"
)

// A folder passes records on, and combines those of an object that is reconciled again and again
// with the same outcome, as in a hot loop: after the first ones, at most one of them is passed on
// each second, with the number of those that it stands for. Without it, a loop of 500 reconciles a
// second fills a disk, and other records disappear among its records.
type folder struct {
	next func(*LineRecord) // not called concurrently

	mu     sync.Mutex
	series boundedmap.Map[seriesKey, *series]
}

// seriesKey identifies reconciles with the same outcome. Objects may alternate between outcomes.
type seriesKey struct {
	object  subject
	outcome string
}

type series struct {
	passed int         // how many records were passed on
	last   time.Time   // of the last one
	held   *LineRecord // the newest record that was not passed on
	timer  *time.Timer // passes held on
}

const (
	// passedFirst is how many records of a series are passed on before others are combined.
	passedFirst = 20
	// foldedOver is the time over which records are combined.
	foldedOver = time.Second
	// maxSeries is how many series a folder remembers at least.
	maxSeries = 10_000
)

func newFolder(next func(*LineRecord)) *folder {
	return &folder{next: next, series: boundedmap.New[seriesKey, *series](maxSeries, nil)}
}

func (f *folder) add(r *LineRecord) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := seriesKey{subject{r.Cluster, r.Controller + "/" + r.Kind, client.Key{Namespace: r.Namespace, Name: r.Name}},
		outcomeOf(r)}
	s, known := f.series.Get(key)
	if !known {
		s = &series{}
	}
	f.series.Set(key, s) // again, so that it is not forgotten
	wait := foldedOver - r.Time.Sub(s.last)
	if s.passed < passedFirst || s.held == nil && wait <= 0 {
		f.pass(s, r)
		return
	}
	if s.held != nil {
		r.Repeats = s.held.Repeats + 1
	}
	s.held = r
	if s.timer == nil {
		s.timer = time.AfterFunc(max(wait, time.Millisecond), func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			held := s.held
			s.held, s.timer = nil, nil
			f.pass(s, held)
		})
	}
}

func (f *folder) pass(s *series, r *LineRecord) {
	s.passed++
	s.last = r.Time
	f.next(r)
}

// outcomeOf returns what the records of a series have in common: everything but their times and the
// versions of objects.
func outcomeOf(r *LineRecord) string {
	var b strings.Builder
	add := func(words ...string) {
		for _, w := range words {
			b.WriteString(w)
			b.WriteByte(0)
		}
	}
	add(r.Error, r.RequeueAfter, strconv.FormatBool(r.Loop != nil))
	for i := range r.Causes {
		c := &r.Causes[i]
		add(c.Event, c.Cluster, c.Kind, c.Namespace, c.Name, c.Manager)
	}
	for i := range r.Writes {
		w := &r.Writes[i]
		add(w.Verb, w.Subresource, w.Cluster, w.Kind, w.Namespace, w.Name, strconv.FormatBool(w.Changed), w.Error)
	}
	return b.String()
}
