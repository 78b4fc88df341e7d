package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// crowd is a number of watchers of one collection, and the events that they expect.
type crowd struct {
	path     string // of the watch
	revision uint64 // the start of the watches
	prefix   string // of the names whose creations count
	writes   int
	bufSize  int
	timed    bool // record latencies
	begin    time.Time
	sent     []atomic.Int64 // when the creation of each name began, relative to begin
	ready    sync.WaitGroup
}

// seen has the events that one watcher received.
type seen struct {
	events    int
	resumed   int // how often the watch ended and was resumed
	latencies []time.Duration
	last      time.Time
	err       error

	revision uint64 // of the last event
	marks    []uint64
}

// wrong is an error after which a watcher does not resume.
type wrong struct{ error }

// mostTries is the number of failed attempts to resume after which a watcher gives up.
const mostTries = 30

// watch reads events until it has received every write once, in the order of revisions. It does not
// decode them. Like any client, it resumes a watch that the server ends, after the last revision
// received.
func (w *crowd) watch(ctx context.Context, c *client) (s seen) {
	var once sync.Once
	defer once.Do(w.ready.Done)
	s = seen{revision: w.revision, marks: make([]uint64, (w.writes+63)/64)}
	for tries := 0; ; {
		before := s.events
		err := w.stream(ctx, c, &s, func() { once.Do(w.ready.Done) })
		if err == nil {
			return s
		}
		if s.events > before {
			tries = 0
		}
		tries++
		var final wrong
		if errors.As(err, &final) || tries > mostTries || ctx.Err() != nil {
			s.err = fmt.Errorf("after %d events, resumed %d times: %w", s.events, s.resumed, err)
			return s
		}
		s.resumed++
		select {
		case <-time.After(min(time.Second, 5*time.Millisecond<<tries)):
		case <-ctx.Done():
		}
	}
}

// stream reads one response. It returns nil when the watcher has received everything.
func (w *crowd) stream(ctx context.Context, c *client, s *seen, ready func()) error {
	path := w.path + "&resourceVersion=" + strconv.FormatUint(s.revision, 10)
	resp, err := c.transport.RoundTrip(c.request(ctx, http.MethodGet, path, "", nil))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		err := fmt.Errorf("watch: %s", resp.Status)
		if resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
			return wrong{err}
		}
		return err
	}
	ready()
	r := bufio.NewReaderSize(resp.Body, w.bufSize)
	name := []byte(`"name":"` + w.prefix)
	for s.events < w.writes {
		line, err := r.ReadSlice('\n')
		rest := err
		for errors.Is(rest, bufio.ErrBufferFull) { // keep only the beginning
			_, rest = r.ReadSlice('\n')
		}
		if rest != nil {
			return rest
		}
		if err := w.event(line, name, s); err != nil {
			return err
		}
	}
	return nil
}

// event records one event.
func (w *crowd) event(line, name []byte, s *seen) error {
	if bytes.HasPrefix(line, []byte(`{"type":"ERROR"`)) {
		err := fmt.Errorf("watch: %.300s", line)
		if bytes.Contains(line, []byte(`"code":410`)) {
			return wrong{err} // events were lost
		}
		return err
	}
	revision, err := strconv.ParseUint(string(field(line, "resourceVersion")), 10, 64)
	if err != nil {
		return wrong{fmt.Errorf("watch: unexpected event: %.300s", line)}
	}
	i := bytes.Index(line, name)
	if i < 0 { // a bookmark, or an object of another client
		s.revision = max(s.revision, revision)
		return nil
	}
	number, err := strconv.Atoi(string(line[i+len(name) : i+len(name)+6]))
	switch {
	case err != nil || number >= w.writes:
		return wrong{fmt.Errorf("watch: unexpected event: %.300s", line)}
	case revision <= s.revision:
		return wrong{fmt.Errorf("watch: revision %d after %d", revision, s.revision)}
	case s.marks[number/64]&(1<<(number%64)) != 0:
		return wrong{fmt.Errorf("watch: %s%06d twice", w.prefix, number)}
	}
	s.revision = revision
	s.marks[number/64] |= 1 << (number % 64)
	s.events++
	s.last = time.Now()
	if w.timed {
		s.latencies = append(s.latencies, s.last.Sub(w.begin)-time.Duration(w.sent[number].Load()))
	}
	return nil
}

// account summarizes the events that all watchers of a crowd received.
type account struct {
	events, whole, resumed int
	last                   time.Time
	latencies              []time.Duration
	missed                 error // the error of a watcher that did not receive everything
}

func sum(all []seen) (a account) {
	for i := range all {
		s := &all[i]
		if s.err == nil {
			a.whole++
		} else {
			a.missed = s.err
		}
		a.events += s.events
		a.resumed += s.resumed
		a.latencies = append(a.latencies, s.latencies...)
		if s.last.After(a.last) {
			a.last = s.last
		}
	}
	return a
}

// summary returns a text with the number of resumed watches.
func (a account) summary() string {
	switch a.resumed {
	case 0:
		return ""
	case 1:
		return "one watch resumed"
	}
	return thousands(float64(a.resumed)) + " watches resumed"
}
