package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// revisionOf returns the newest revision of a collection.
func (l *life) revisionOf(ctx context.Context, collection string) (uint64, error) {
	c := l.client(l.http2)
	defer c.transport.CloseIdleConnections()
	if err := c.do(ctx, http.MethodGet, collection+"?limit=1", "", nil); err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(field(c.answer, "resourceVersion")), 10, 64)
}

// watches measures 100 watchers with a connection each, while 16 clients create 1,000 objects of a
// kilobyte.
func (l *life) watches(ctx context.Context) error {
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
		if err := l.lost(ctx, l.watched(ctx, kind.id, kind.collection, kind.body), kind.id,
			kind.id+"-p99"); err != nil {
			return err
		}
	}
	return nil
}

// watched measures the two rows of one kind.
func (l *life) watched(ctx context.Context, id, collection string, body func(buf []byte, name string) []byte) error {
	const watchers, writes = 100, 1000
	revision, err := l.revisionOf(ctx, collection)
	if err != nil {
		return err
	}
	crowd := &crowd{
		path: collection + "?watch=1&allowWatchBookmarks=true", revision: revision, prefix: "watched-", writes: writes,
		bufSize: 16 << 10, timed: true, begin: time.Now(), sent: make([]atomic.Int64, writes),
	}
	clients := l.clients(l.options, watchers)
	defer closeAll(clients)
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	all := make([]seen, watchers)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	crowd.ready.Add(watchers)
	for i, c := range clients {
		wg.Go(func() { all[i] = crowd.watch(ctx, c) })
	}
	crowd.ready.Wait()
	defer l.profile(ctx, id)()
	made, err := l.write(ctx, crowd, collection, body)
	if err != nil {
		return err
	}
	wg.Wait()
	after, err := l.cpu()
	if err != nil {
		return err
	}
	own := ownCPU() - made.own
	saw := sum(all)
	if saw.missed != nil {
		return saw.missed
	}
	slices.Sort(saw.latencies)
	p99, events := saw.latencies[len(saw.latencies)*99/100], time.Duration(saw.events)
	l.set(id, figure{
		measured: true, value: float64(saw.events) / saw.last.Sub(made.begin).Seconds(), p99: p99,
		cpu:    (after - made.cpu) / events,
		client: own / events, note: saw.summary(),
	})
	l.set(id+"-p99", figure{measured: true, value: float64(p99)})
	return nil
}

// written holds the time at which the writes began, and the CPU time that the side had used by
// then.
type written struct {
	begin time.Time
	cpu   time.Duration
	own   time.Duration // of this process
}

// write creates, with 16 clients, the objects that a crowd waits for.
func (l *life) write(ctx context.Context, w *crowd, collection string,
	body func(buf []byte, name string) []byte) (made written, err error) {
	if made.cpu, err = l.cpu(); err != nil {
		return made, err
	}
	clients := l.clients(l.options, 16)
	defer closeAll(clients)
	bufs := bodies(len(clients))
	var next atomic.Int64
	made.begin, made.own = time.Now(), ownCPU()
	_, err = l.drive(ctx, clients, 0, func(ctx context.Context, c *client, clientNumber int) error {
		n := next.Add(1) - 1
		if n >= int64(w.writes) {
			return errEnough
		}
		w.sent[n].Store(int64(time.Since(w.begin)))
		return c.do(ctx, http.MethodPost, collection, jsonMedia,
			body(bufs[clientNumber], fmt.Sprintf("%s%06d", w.prefix, n)))
	})
	return made, err
}

// idleWatchers measures the memory of watchers without events, and then makes all of them receive
// writes. They use connections with a hundred streams each, like the watches of one client-go
// client.
func (l *life) idleWatchers(ctx context.Context) error {
	if !l.wanted("idle-watchers", "idle-watchers-events") {
		return nil
	}
	const streams = 100
	writes := l.idleWrites
	if !l.side.kelson {
		writes = l.peerIdleWrites
	}
	if err := l.waitIdle(ctx); err != nil {
		return err
	}
	before, err := l.usage()
	if err != nil {
		return err
	}
	revision, err := l.revisionOf(ctx, configMaps)
	if err != nil {
		return err
	}
	crowd := &crowd{
		path: configMaps + "?watch=1", revision: revision, prefix: "idle-", writes: writes, bufSize: 4 << 10,
		begin: time.Now(),
		sent:  make([]atomic.Int64, writes),
	}
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	all := make([]seen, l.idleWatching)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	crowd.ready.Add(len(all))
	var transports []*client
	for i := range all {
		if i%streams == 0 {
			c := l.client(true)
			c.transport.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10,
				MaxReceiveBufferPerConnection: 4 << 20}
			transports = append(transports, c)
		}
		c := *transports[len(transports)-1] // share the connection, but not the other fields
		c.headers = map[string]http.Header{}
		wg.Go(func() { all[i] = crowd.watch(ctx, &c) })
		if i%streams == 0 {
			time.Sleep(5 * time.Millisecond) // the first watch opens the connection
		}
	}
	defer closeAll(transports)
	crowd.ready.Wait()
	if err := l.waitIdle(ctx); err != nil {
		return err
	}
	now, err := l.usage()
	if err != nil {
		return err
	}
	l.set("idle-watchers", figure{measured: true, value: float64(now.Resident-before.Resident) / float64(len(all))})
	small := func(buf []byte, name string) []byte {
		return fmt.Appendf(buf[:0], `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"},"data":{"k":"v"}}`,
			name)
	}
	defer l.profile(ctx, "idle-watchers")()
	made, err := l.write(ctx, crowd, configMaps, small)
	if err != nil {
		return err
	}
	wg.Wait()
	after, err := l.cpu()
	if err != nil {
		return err
	}
	saw := sum(all)
	note := fmt.Sprintf("%s writes: all watchers received them in order", thousands(float64(writes)))
	if saw.whole < len(all) {
		note = fmt.Sprintf("%s writes: %s of %s watchers received all in order", thousands(float64(writes)),
			thousands(float64(saw.whole)), thousands(float64(len(all))))
		if l.side.kelson {
			return fmt.Errorf("idle watchers: %s; one of the others: %w", note, saw.missed)
		}
		l.warn(saw.missed)
	}
	if saw.resumed > 0 {
		note += ", " + saw.summary()
	}
	l.set("idle-watchers-events", figure{
		measured: true, value: float64(saw.events) / saw.last.Sub(made.begin).Seconds(),
		cpu: (after - made.cpu) / time.Duration(max(1, saw.events)), note: note,
	})
	return nil
}
