package events

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/operator/client"
)

// Sink receives events, one at a time and in the order in which they were recorded. It may block
// until ctx ends; it then delays no other sink. It must not modify an event, which all sinks share,
// and must be safe for concurrent use if several Broadcasters have it. The Broadcaster logs errors.
//
// ctx lives until the FlushTimeout after Run's context has ended.
type Sink interface {
	Write(ctx context.Context, e *corev1.Event) error
}

// SinkFunc adapts a function to a Sink.
type SinkFunc func(ctx context.Context, e *corev1.Event) error

// Write calls f.
func (f SinkFunc) Write(ctx context.Context, e *corev1.Event) error { return f(ctx, e) }

// ToServer returns a Sink that writes to the API server, within the limits in the package
// documentation. Use one per server, and each in one Broadcaster only.
func ToServer(c client.Client) Sink { return &toServer{client: c} }

// ToLog returns a Sink that logs every event: a warning for the type Warning, and info for others.
func ToLog(log *slog.Logger) Sink {
	return SinkFunc(func(ctx context.Context, e *corev1.Event) error {
		level := slog.LevelInfo
		if e.Type == corev1.EventTypeWarning {
			level = slog.LevelWarn
		}
		about := e.InvolvedObject
		log.LogAttrs(ctx, level, e.Message, slog.String("event", e.Reason),
			slog.String("component", e.ReportingController),
			slog.String("kind", about.Kind), slog.String("namespace", about.Namespace), slog.String("name", about.Name))
		return nil
	})
}

// channel has the buffer of one sink. While there are events, a goroutine passes them to the sink;
// without events, a channel needs neither a goroutine nor a buffer, because a server can simulate
// thousands of nodes with a Broadcaster each.
type channel struct {
	sink  Sink
	limit int // of events

	mu      sync.Mutex
	events  []*corev1.Event
	serving bool // a goroutine runs
	lossy   bool // an event was dropped since the buffer was empty
}

// add appends an event unless the buffer is full. It reports whether the event was dropped, and
// whether it is the first one since the buffer was empty.
func (c *channel) add(e *corev1.Event) (dropped, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) < c.limit {
		c.events = append(c.events, e)
		return false, false
	}
	first = !c.lossy
	c.lossy = true
	return true, first
}

// begin reports whether the caller must serve the channel: it has events, and no goroutine runs.
func (c *channel) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.serving || len(c.events) == 0 {
		return false
	}
	c.serving = true
	return true
}

// next takes the first event. It returns nil, and ends the serving, if there is none, or after ctx
// has ended.
func (c *channel) next(ctx context.Context) *corev1.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) == 0 || ctx.Err() != nil {
		c.serving = false
		return nil
	}
	e := c.events[0]
	c.events[0] = nil
	if c.events = c.events[1:]; len(c.events) == 0 {
		c.events, c.lossy = nil, false
	}
	return e
}

// drop forgets the events that wait.
func (c *channel) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = nil
}

// Add adds a sink. It receives the events that are recorded after this call, while the Broadcaster
// runs. remove removes the sink and drops events that wait for it. remove may be called more than
// once, and does not wait for a Write in progress.
func (b *Broadcaster) Add(s Sink) (remove func()) {
	c := &channel{sink: s, limit: b.cfg.Buffer}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.channels = append(b.channels, c)
	return func() { b.remove(c) }
}

func (b *Broadcaster) remove(c *channel) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.channels, c); i >= 0 {
		b.channels = slices.Delete(b.channels, i, i+1)
		c.drop() // send adds no more: it no longer finds the channel
	}
}

// send passes an event to all sinks without blocking.
func (b *Broadcaster) send(e *corev1.Event) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, c := range b.channels {
		if dropped, first := c.add(e); dropped {
			b.dropped.Add(1)
			if first { // once, because thousands may follow
				b.cfg.Log.Warn("dropping events, because a sink writes them more slowly than they are recorded",
					"reason", e.Reason, "object", e.InvolvedObject.Name, "message", e.Message)
			}
		}
		b.start(c)
	}
}

// Run passes events to the sinks until ctx ends, and then those that wait, for at most the
// FlushTimeout. It returns nil. It must not be called while it runs.
func (b *Broadcaster) Run(ctx context.Context) error {
	// The context for sinks lives longer than ctx, so that waiting events are written and a write
	// in progress is not canceled.
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(b.cfg.FlushTimeout, cancel) })
	defer stop()
	b.mu.Lock()
	b.writing = writing
	for _, c := range b.channels {
		b.start(c)
	}
	b.mu.Unlock()
	<-ctx.Done()
	b.mu.Lock()
	b.writing = nil // no more goroutines start
	b.mu.Unlock()
	b.tasks.Wait()
	return nil
}

// start passes the events of a channel to its sink if the Broadcaster runs. The caller holds the
// lock, so that Run does not end before the goroutine counts.
func (b *Broadcaster) start(c *channel) {
	writing := b.writing
	if writing == nil || !c.begin() {
		return
	}
	b.tasks.Go(func() {
		for e := c.next(writing); e != nil; e = c.next(writing) {
			b.write(writing, c.sink, e)
		}
	})
}

func (b *Broadcaster) write(ctx context.Context, s Sink, e *corev1.Event) {
	if err := s.Write(ctx, e); err != nil {
		b.cfg.Log.Warn("write event", "reason", e.Reason, "object", e.InvolvedObject.Name, "message", e.Message, "err",
			err)
	}
}
