package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// crowd is a number of watchers of one collection, and what they are to see.
type crowd struct {
	prefix string // of the names whose creations count
	writes int
	begin  time.Time
	sent   []atomic.Int64 // when the creation of each name began, after begin
	ready  sync.WaitGroup
}

// seen is one watcher's account.
type seen struct {
	events    int
	latencies []time.Duration
	last      time.Time
	err       error
}

// watch reads a stream until every write was seen once, in the order of their revisions. It does not decode.
func (w *crowd) watch(ctx context.Context, c *client, path string, bufSize int, latencies bool) (s seen) {
	var once sync.Once
	defer once.Do(w.ready.Done)
	resp, err := c.transport.RoundTrip(c.request(ctx, http.MethodGet, path, "", nil))
	if err != nil {
		return seen{err: err}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return seen{err: fmt.Errorf("watch: %s", resp.Status)}
	}
	once.Do(w.ready.Done)
	r := bufio.NewReaderSize(resp.Body, bufSize)
	marks := make([]uint64, (w.writes+63)/64)
	name, before := []byte(`"name":"`+w.prefix), uint64(0)
	for s.events < w.writes {
		line, err := r.ReadSlice('\n')
		rest := err
		for errors.Is(rest, bufio.ErrBufferFull) { // what counts is at the beginning
			_, rest = r.ReadSlice('\n')
		}
		if rest != nil {
			s.err = fmt.Errorf("after %d events: %w", s.events, rest)
			return s
		}
		i := bytes.Index(line, name)
		if i < 0 {
			continue // a bookmark, or an object of somebody else
		}
		number, err1 := strconv.Atoi(string(line[i+len(name) : i+len(name)+6]))
		revision, err2 := strconv.ParseUint(string(field(line, "resourceVersion")), 10, 64)
		switch {
		case err1 != nil || err2 != nil || number >= w.writes:
			s.err = fmt.Errorf("watch: not understood: %.300s", line)
		case revision <= before:
			s.err = fmt.Errorf("watch: revision %d after %d", revision, before)
		case marks[number/64]&(1<<(number%64)) != 0:
			s.err = fmt.Errorf("watch: %s%06d twice", w.prefix, number)
		}
		if s.err != nil {
			return s
		}
		before = revision
		marks[number/64] |= 1 << (number % 64)
		s.events++
		s.last = time.Now()
		if latencies {
			s.latencies = append(s.latencies, s.last.Sub(w.begin)-time.Duration(w.sent[number].Load()))
		}
	}
	return s
}

// revisionOf is the collection's newest.
func (l *life) revisionOf(ctx context.Context, collection string) (string, error) {
	c := l.client(l.http2)
	defer c.transport.CloseIdleConnections()
	err := c.do(ctx, http.MethodGet, collection+"?limit=1", "", nil)
	return string(field(c.answer, "resourceVersion")), err
}

// watches measures 100 watchers on a connection each, while 16 clients create 1,000 objects of a kilobyte.
func (l *life) watches(ctx context.Context) error {
	const watchers, writes = 100, 1000
	for _, kind := range []struct {
		id, collection string
		body           func(buf []byte, name string) []byte
	}{
		{"watch-cm", configMaps, configMapBody},
		{"watch-cr", widgets, func(buf []byte, name string) []byte { return widgetBody(buf, name, 0) }},
	} {
		if !l.wanted(kind.id, kind.id+"-p99") {
			continue
		}
		crowd := &crowd{prefix: "watched-", writes: writes, sent: make([]atomic.Int64, writes), begin: time.Now()}
		revision, err := l.revisionOf(ctx, kind.collection)
		if err != nil {
			return err
		}
		clients := l.clients(l.options, watchers)
		all := make([]seen, watchers)
		ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		crowd.ready.Add(watchers)
		for i, c := range clients {
			wg.Go(func() {
				all[i] = crowd.watch(ctx, c, kind.collection+"?watch=1&allowWatchBookmarks=true&resourceVersion="+revision, 16<<10, true)
			})
		}
		crowd.ready.Wait()
		profiled := l.profile(ctx, kind.id)
		made, err := l.write(ctx, crowd, kind.collection, kind.body)
		if err != nil {
			return err
		}
		wg.Wait()
		after, err := l.cpu()
		if err != nil {
			return err
		}
		var latencies []time.Duration
		last, events := made.begin, 0
		for _, s := range all {
			if s.err != nil {
				return fmt.Errorf("%s: %w", kind.id, s.err)
			}
			latencies = append(latencies, s.latencies...)
			events += s.events
			if s.last.After(last) {
				last = s.last
			}
		}
		own := ownCPU() - made.own
		closeAll(clients)
		profiled()
		slices.Sort(latencies)
		p99 := latencies[len(latencies)*99/100]
		l.set(kind.id, figure{
			measured: true, value: float64(events) / last.Sub(made.begin).Seconds(), p99: p99, cpu: (after - made.cpu) / time.Duration(events),
			client: own / time.Duration(events),
		})
		l.set(kind.id+"-p99", figure{measured: true, value: float64(p99)})
	}
	return nil
}

// written says when the writes began, and what processor time the side had used by then.
type written struct {
	begin time.Time
	cpu   time.Duration
	own   time.Duration // of this process
}

// write lets 16 clients create what a crowd waits for.
func (l *life) write(ctx context.Context, w *crowd, collection string, body func(buf []byte, name string) []byte) (made written, err error) {
	if made.cpu, err = l.cpu(); err != nil {
		return made, err
	}
	clients := l.clients(l.options, 16)
	defer closeAll(clients)
	bufs := bodies(len(clients))
	var next atomic.Int64
	made.begin, made.own = time.Now(), ownCPU()
	_, err = l.drive(ctx, clients, 0, func(ctx context.Context, c *client, who int) error {
		n := next.Add(1) - 1
		if n >= int64(w.writes) {
			return errEnough
		}
		w.sent[n].Store(int64(time.Since(w.begin)))
		return c.do(ctx, http.MethodPost, collection, jsonMedia, body(bufs[who], fmt.Sprintf("%s%06d", w.prefix, n)))
	})
	return made, err
}

// idleWatchers measures what watchers weigh that have nothing to see, and then lets them all see writes. They come over connections of a
// hundred streams each, as the watches of one client-go client do.
func (l *life) idleWatchers(ctx context.Context) error {
	if !l.wanted("idle-watchers", "idle-watchers-events") {
		return nil
	}
	const streams = 100
	writes := l.idleWrites
	if !l.side.kelson {
		writes = l.peerIdleWrites
	}
	before, err := l.memory()
	if err != nil {
		return err
	}
	revision, err := l.revisionOf(ctx, configMaps)
	if err != nil {
		return err
	}
	crowd := &crowd{prefix: "idle-", writes: writes, sent: make([]atomic.Int64, writes), begin: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	all := make([]seen, l.idleWatching)
	var wg sync.WaitGroup
	crowd.ready.Add(len(all))
	var transports []*client
	for i := range all {
		if i%streams == 0 {
			c := l.client(true)
			c.transport.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 4 << 20}
			transports = append(transports, c)
		}
		c := *transports[len(transports)-1] // the connection is shared, the rest is the watcher's own
		c.headers = map[string]http.Header{}
		wg.Go(func() {
			all[i] = crowd.watch(ctx, &c, configMaps+"?watch=1&resourceVersion="+revision, 4<<10, false)
		})
		if i%streams == 0 {
			time.Sleep(5 * time.Millisecond) // the first one opens the connection that the others use
		}
	}
	defer closeAll(transports)
	crowd.ready.Wait()
	select {
	case <-time.After(l.idle):
	case <-ctx.Done():
	}
	now, err := l.memory()
	if err != nil {
		return err
	}
	l.set("idle-watchers", figure{measured: true, value: float64(now.resident-before.resident) / float64(len(all))})
	small := func(buf []byte, name string) []byte {
		return fmt.Appendf(buf[:0], `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"},"data":{"k":"v"}}`, name)
	}
	defer l.profile(ctx, "idle-watchers")()
	made, err := l.write(ctx, crowd, configMaps, small)
	if err != nil {
		return err
	}
	wg.Wait()
	whole, events, last := 0, 0, made.begin
	var missed error
	for _, s := range all {
		if s.err == nil {
			whole++
		} else {
			missed = s.err
		}
		events += s.events
		if s.last.After(last) {
			last = s.last
		}
	}
	after, err := l.cpu()
	if err != nil {
		return err
	}
	note := fmt.Sprintf("%s writes: all saw all in order", thousands(float64(writes)))
	if whole < len(all) {
		note = fmt.Sprintf("%s writes: %s of %s saw all in order", thousands(float64(writes)), thousands(float64(whole)), thousands(float64(len(all))))
		if l.side.kelson {
			return fmt.Errorf("idle watchers: %s; one of the others: %w", note, missed)
		}
		if errors.Is(missed, io.EOF) || errors.Is(missed, context.DeadlineExceeded) {
			missed = nil // closed by the server, or too late
		}
		l.warn(missed)
	}
	l.set("idle-watchers-events", figure{
		measured: true, value: float64(events) / last.Sub(made.begin).Seconds(), cpu: (after - made.cpu) / time.Duration(max(1, events)), note: note,
	})
	return nil
}
