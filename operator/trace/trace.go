// Package trace records what an operator does: why each reconcile ran, what it wrote, and what that
// caused.
//
// # Model
//
// Every reconcile produces one [Record]. Its causes are the events that queued the object, merged
// and bounded; its writes are those made through a client from [Tracer.Client]. For a [Sink], the
// record also has [Details]: reads through that client, logs, and the queue. If the resourceVersion
// in an event was written by an earlier reconcile, the cause names that reconcile ([Cause].By).
// This links causes and effects on any API server.
//
//	write of reconcile 7 ──▶ API server ──▶ watch event, same resourceVersion ──▶ cause (By: 7) of reconcile 8
//
// A reconcile that is repeatedly caused by its own writes, or that reverts the changes of another
// writer, is a hot loop: [Loop] names the objects, controllers and fields.
//
// # Use
//
//	tracer := trace.New(trace.Config{Sink: trace.JSON(os.Stderr)})
//	c = tracer.Client(c)
//	ctx, span := tracer.Start(ctx, trace.Record{Controller: "at", Kind: "At", Request: req, Causes: causes})
//	// … writes through c with ctx …
//	span.End(result, err)
//
// A nil *Tracer records nothing and costs nothing.
//
// # Concurrency
//
// All types are safe for concurrent use. The sink receives records one at a time, in the order in
// which the reconciles end.
package trace

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
)

// Record describes one reconcile.
type Record struct {
	ID         uint64            // numbers the reconciles of the process, from 1
	Time       time.Time         // of the start
	Controller string            // its name
	Kind       string            // of the object reconciled
	Request    reconcile.Request // the name of the object
	Causes     Causes
	Writes     []Write
	Result     reconcile.Result
	Err        error
	Duration   time.Duration
	// Loop is set if the reconcile turned out to be part of a hot loop.
	Loop *Loop
	// Details are the reads, logs and queue; nil if there are none.
	Details *Details
}

// Write is one write to the API server by a reconcile.
type Write struct {
	Verb            string // create, update, patch, apply, delete or deletecollection
	Subresource     string
	Cluster         string
	Kind            string
	Key             client.Key
	ResourceVersion string // resulting from the write; empty if it failed
	Changed         bool   // false if the write left the object unchanged; true if unknown
	Err             error
}

// Sink receives records. It must not block, and must not retain the slices.
type Sink interface {
	Reconciled(Record)
}

// Func adapts a function to a Sink.
type Func func(Record)

// Reconciled calls f.
func (f Func) Reconciled(r Record) { f(r) }

// Tee returns a Sink that passes each record to several sinks.
func Tee(sinks ...Sink) Sink {
	return Func(func(r Record) {
		for _, s := range sinks {
			s.Reconciled(r)
		}
	})
}

// Config configures a Tracer.
type Config struct {
	// Sink, if not nil, receives the records.
	Sink Sink
	// Loops, if not nil, is called for hot loops (see Loop), at most once a minute for each.
	Loops func(Loop)
	// Provider, if not nil, creates OpenTelemetry spans: one per reconcile, with links to its
	// causes, and one per write.
	Provider oteltrace.TracerProvider
}

// Tracer creates records. A nil Tracer creates none.
type Tracer struct {
	cfg    Config
	otel   oteltrace.Tracer // nil without spans
	ids    atomic.Uint64
	sinkMu sync.Mutex
	known  versions
	loops  loops
}

// New returns a tracer, or nil if the Config has no receiver.
func New(cfg Config) *Tracer {
	if cfg.Sink == nil && cfg.Loops == nil && cfg.Provider == nil {
		return nil
	}
	t := &Tracer{cfg: cfg}
	t.known.init()
	t.loops.init()
	if cfg.Provider != nil {
		t.otel = cfg.Provider.Tracer("kelson.dev/operator")
	}
	return t
}

// Span is a reconcile in progress.
type Span struct {
	tracer *Tracer
	mu     sync.Mutex
	record Record
	ended  bool
	otel   oteltrace.Span // nil if there is none
}

type (
	spanKey   struct{}
	tracerKey struct{}
)

// NewContext returns a context that carries the tracer for sources.
func NewContext(ctx context.Context, t *Tracer) context.Context {
	if t == nil {
		return ctx
	}
	return context.WithValue(ctx, tracerKey{}, t)
}

// FromContext returns the tracer of a context; nil if there is none.
func FromContext(ctx context.Context) *Tracer {
	t, _ := ctx.Value(tracerKey{}).(*Tracer)
	return t
}

// Keeps reports whether records are used, not only loop detection.
func (t *Tracer) Keeps() bool { return t != nil && (t.cfg.Sink != nil || t.otel != nil) }

// Start starts the record of the reconcile that r describes. Writes made with the returned context
// belong to it.
func (t *Tracer) Start(ctx context.Context, r Record) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	r.ID, r.Time = t.ids.Add(1), time.Now()
	s := &Span{tracer: t, record: r}
	if t.otel != nil {
		ctx, s.otel = t.startSpan(ctx, r)
	}
	return context.WithValue(ctx, spanKey{}, s), s
}

// End completes the record and passes it to the sink.
func (s *Span) End(result reconcile.Result, err error) {
	if s != nil {
		s.EndAfter(time.Since(s.record.Time), result, err)
	}
}

// EndAfter is like End, for a reconcile that returned before the call and took the given time.
// Callers use it if the record must wait for its Details.
func (s *Span) EndAfter(took time.Duration, result reconcile.Result, err error) {
	if s == nil {
		return
	}
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended = true
	r := s.record
	s.mu.Unlock()
	r.Result, r.Err, r.Duration = result, err, took
	// Resolve causes only now: the event of a write can arrive before the response to it, when its
	// writer is not recorded yet.
	r.Causes, r.Writes = s.tracer.known.resolve(r.Causes, r.ID), s.tracer.known.corrected(r.Writes)
	if s.otel != nil {
		s.tracer.endSpan(s.otel, r)
	}
	if r.Loop = s.tracer.loops.reconciled(r); r.Loop != nil && s.tracer.cfg.Loops != nil {
		s.tracer.cfg.Loops(*r.Loop)
	}
	if s.tracer.cfg.Sink == nil {
		return
	}
	s.tracer.sinkMu.Lock()
	defer s.tracer.sinkMu.Unlock()
	s.tracer.cfg.Sink.Reconciled(r)
}

// Delivered records the state of an object that an event has delivered, and the field manager that
// made the change, or "". Controllers call it for each event, so that a write that changes nothing
// is not recorded as the author of that state.
func (t *Tracer) Delivered(cluster, kind string, key client.Key, resourceVersion, manager string) {
	if t != nil {
		t.known.deliver(subject{cluster, kind, key}, resourceVersion, manager)
	}
}

// ID returns the ID of the current reconcile; 0 outside of one.
func ID(ctx context.Context) uint64 {
	if s, ok := ctx.Value(spanKey{}).(*Span); ok {
		return s.record.ID
	}
	return 0
}

// maxWrites bounds the recorded writes of one reconcile.
const maxWrites = 1000

// addWrite adds a write. began is zero without details.
func (s *Span) addWrite(w Write, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(s.record.Writes) >= maxWrites {
		return
	}
	s.record.Writes = append(s.record.Writes, w)
	if !began.IsZero() {
		d := s.details()
		d.Writes = append(d.Writes, s.since(began))
	}
}
