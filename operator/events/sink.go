package events

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
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

// channel has the buffer of one sink.
type channel struct {
	sink    Sink
	events  chan *corev1.Event
	removed chan struct{}
	lossy   atomic.Bool // an event was dropped since the buffer was empty
}

// running is the state while a Broadcaster runs.
type running struct {
	ctx     context.Context // of Run
	writing context.Context // for sinks
}

// Add adds a sink. It receives the events that are recorded after this call, while the Broadcaster
// runs. remove removes the sink and drops events that wait for it. remove may be called more than
// once, and does not wait for a Write in progress.
func (b *Broadcaster) Add(s Sink) (remove func()) {
	c := &channel{sink: s, events: make(chan *corev1.Event, b.cfg.Buffer), removed: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.channels = append(b.channels, c)
	b.start(c)
	return func() { b.remove(c) }
}

func (b *Broadcaster) remove(c *channel) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.channels, c); i >= 0 {
		b.channels = slices.Delete(b.channels, i, i+1)
		close(c.removed)
	}
}

// send passes an event to all sinks without blocking.
func (b *Broadcaster) send(e *corev1.Event) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, c := range b.channels {
		select {
		case c.events <- e:
		default:
			b.dropped.Add(1)
			if !c.lossy.Swap(true) { // once, because thousands may follow
				b.cfg.Log.Warn("dropping events, because a sink writes them more slowly than they are recorded",
					"reason", e.Reason, "object", e.InvolvedObject.Name, "message", e.Message)
			}
		}
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
	b.run = &running{ctx: ctx, writing: writing}
	for _, c := range b.channels {
		b.start(c)
	}
	b.mu.Unlock()
	<-ctx.Done()
	b.mu.Lock()
	b.run = nil // no more goroutines start
	b.mu.Unlock()
	b.tasks.Wait()
	return nil
}

// start runs a channel if the Broadcaster runs. The caller holds the lock.
func (b *Broadcaster) start(c *channel) {
	if r := b.run; r != nil {
		b.tasks.Go(func() { b.serve(*r, c) })
	}
}

// serve passes the events of a channel to its sink until Run's context ends, and then those that
// wait.
func (b *Broadcaster) serve(r running, c *channel) {
	for {
		select {
		case e := <-c.events:
			if len(c.events) == 0 {
				c.lossy.Store(false)
			}
			b.write(r.writing, c.sink, e)
			continue
		case <-c.removed:
			return
		case <-r.ctx.Done():
		}
		break
	}
	for r.writing.Err() == nil {
		select {
		case e := <-c.events:
			b.write(r.writing, c.sink, e)
		default:
			return
		}
	}
}

func (b *Broadcaster) write(ctx context.Context, s Sink, e *corev1.Event) {
	if err := s.Write(ctx, e); err != nil {
		b.cfg.Log.Warn("write event", "reason", e.Reason, "object", e.InvolvedObject.Name, "message", e.Message, "err",
			err)
	}
}
