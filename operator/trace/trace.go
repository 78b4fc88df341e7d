// Package trace keeps the account of what an operator does: why each reconcile ran, what it wrote, and what that led to.
//
// # Model
//
// Every reconcile makes one [Record]. Its causes are the events that put the object into the queue, merged and bounded; its writes are
// those that went through a client wrapped by [Tracer.Client]. An event that carries the resourceVersion which an earlier reconcile
// wrote names that reconcile ([Cause].By): so the chain closes, on any API server.
//
//	write of reconcile 7 ──▶ API server ──▶ watch event, same resourceVersion ──▶ cause (By: 7) of reconcile 8
//
// A reconcile whose own writes cause it again and again, or that undoes what somebody else does, is a hot loop: [Loop] names the objects,
// controllers and fields.
//
// # Use
//
//	tracer := trace.New(trace.Config{Sink: trace.JSON(os.Stderr)})
//	c = tracer.Client(c)
//	ctx, span := tracer.Start(ctx, trace.Record{Controller: "at", Kind: "At", Request: req, Causes: causes})
//	// … writes through c with ctx …
//	span.End(result, err)
//
// A nil *Tracer keeps no account and costs nothing.
//
// # Concurrency
//
// Everything here is safe for concurrent use. Records reach the sink one at a time, in the order in which the reconciles end.
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

// Record is the account of one reconcile.
type Record struct {
	ID         uint64            // counts the reconciles of the process, from 1
	Time       time.Time         // of the beginning
	Controller string            // its name
	Kind       string            // of the object reconciled
	Request    reconcile.Request // the object's name
	Causes     Causes
	Writes     []Write
	Result     reconcile.Result
	Err        error
	Duration   time.Duration
	// Loop is set on a reconcile that turned out to be part of a hot loop.
	Loop *Loop
}

// Write is one write to the API server that a reconcile made.
type Write struct {
	Verb            string // create, update, patch, apply, delete or deletecollection
	Subresource     string
	Cluster         string
	Kind            string
	Key             client.Key
	ResourceVersion string // that the write resulted in; empty if it failed
	Changed         bool   // false: the server found everything as it should be. True where that is not known.
	Err             error
}

// Sink takes records. It must be quick, and must not keep the slices.
type Sink interface {
	Reconciled(Record)
}

// Func is a function as a Sink.
type Func func(Record)

// Reconciled calls f.
func (f Func) Reconciled(r Record) { f(r) }

// Tee gives each record to several sinks.
func Tee(sinks ...Sink) Sink {
	return Func(func(r Record) {
		for _, s := range sinks {
			s.Reconciled(r)
		}
	})
}

// Config describes a Tracer.
type Config struct {
	// Sink, if any, takes the records.
	Sink Sink
	// Loops, if set, is told of hot loops (see Loop), of each once a minute at most.
	Loops func(Loop)
	// Provider, if any, makes OpenTelemetry spans: one per reconcile, with links to those that led to it, and one per write.
	Provider oteltrace.TracerProvider
}

// Tracer makes records. A nil Tracer makes none.
type Tracer struct {
	cfg    Config
	otel   oteltrace.Tracer // nil if there are to be no spans
	ids    atomic.Uint64
	sinkMu sync.Mutex
	known  versions
	loops  loops
}

// New makes a tracer; nil if nobody listens.
func New(cfg Config) *Tracer {
	if cfg.Sink == nil && cfg.Loops == nil && cfg.Provider == nil {
		return nil
	}
	t := &Tracer{cfg: cfg}
	t.loops.activities.Gone = t.loops.calm
	if cfg.Provider != nil {
		t.otel = cfg.Provider.Tracer("kelson.dev/operator")
	}
	return t
}

// Span is a reconcile under way.
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

// NewContext returns a context in which sources find the tracer.
func NewContext(ctx context.Context, t *Tracer) context.Context {
	if t == nil {
		return ctx
	}
	return context.WithValue(ctx, tracerKey{}, t)
}

// FromContext is the tracer of a context; nil if there is none.
func FromContext(ctx context.Context) *Tracer {
	t, _ := ctx.Value(tracerKey{}).(*Tracer)
	return t
}

// Keeps says whether somebody reads the records, and not only loops are looked for.
func (t *Tracer) Keeps() bool { return t != nil && (t.cfg.Sink != nil || t.otel != nil) }

// Start begins the account of a reconcile; r says which. Writes made with the context it returns belong to it.
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

// End closes the account and gives it to the sink.
func (s *Span) End(result reconcile.Result, err error) {
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
	r.Result, r.Err, r.Duration = result, err, time.Since(r.Time)
	// Only now: the event of a write can arrive before the answer to it, and is then a cause before its writer is known.
	r.Causes = s.tracer.known.resolve(r.Causes, r.ID)
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

// ID is the number of the reconcile under way; 0 outside of one.
func ID(ctx context.Context) uint64 {
	if s, ok := ctx.Value(spanKey{}).(*Span); ok {
		return s.record.ID
	}
	return 0
}

// maxWrites bounds what is kept of a reconcile that writes without end.
const maxWrites = 1000

func (s *Span) note(w Write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && len(s.record.Writes) < maxWrites {
		s.record.Writes = append(s.record.Writes, w)
	}
}
